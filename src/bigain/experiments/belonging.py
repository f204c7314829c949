"""Whether records are of one experiment: the same file, images, weights, code, precision and versions."""

import json
from collections.abc import Sequence
from typing import Any

from bigain.experiments.changes import NAMED, WORDS, as_text, differences
from bigain.experiments.migration import migrate
from bigain.experiments.store import Store

VERSIONS = ("bigain", "torch", "diffusers")


def check_together(stores: Sequence[Store]) -> None:
    """Raise in words if one of them does not belong to the first."""
    first = stores[0]
    for store in stores:
        check_whole(store)
        check_same_experiment(first, store)
        for kind in WORDS:
            check_same_hashes(first, store, kind)
        for key in ("dtype", *VERSIONS):
            check_same_session(first, store, key)


def check_whole(store: Store) -> None:
    """A small copy lacks what decides whether two results are equal."""
    store.meta()  # raises for a record without results
    if store.rows("select 1 from decisions where errors is null limit 1"):
        raise ValueError(
            f"{store.path} is a small copy as `bigain report --record` writes, without what merging needs; use the "
            "run folder that it was made from"
        )


def decisive(store: Store) -> dict[str, str]:
    """The texts that decide results: the experiment, the data, each setting."""
    rows = store.rows("select key, value from meta where key not in ('words', 'plan')")
    return {key: as_text(migrate(json.loads(value))) for key, value in rows}


def check_same_experiment(first: Store, store: Store) -> None:
    before, now = decisive(first), decisive(store)
    for key in sorted(before.keys() & now.keys()):
        if before[key] != now[key]:
            raise ValueError(
                f"{store.path} and {first.path} are of different experiments and cannot be merged; they differ in "
                f"{key}:\n" + differences(before[key], now[key], (str(first.path), str(store.path)))
            )


def check_same_hashes(first: Store, store: Store, kind: str) -> None:
    before, now = first.hashes(kind), store.hashes(kind)
    unknown = kind == "weights" and not (before and now)  # older records have no hashes
    names = before.keys() & now.keys() if kind == "image" or unknown else before.keys() | now.keys()
    other = sorted(name for name in names if before.get(name) != now.get(name))
    if other:
        more = f" and {len(other) - NAMED} more" if len(other) > NAMED else ""
        raise ValueError(
            f"{store.path} and {first.path} have results from different {WORDS[kind]} and cannot be merged: "
            f"{', '.join(other[:NAMED])}{more}"
        )


def check_same_session(first: Store, store: Store, key: str) -> None:
    before, now = (found(each.sessions(), key) for each in (first, store))
    if before and now and before != now:
        raise ValueError(
            f"{first.path} was computed with {key} {', '.join(before)}, {store.path} with {', '.join(now)}; they "
            f"cannot be merged. Run one of them again with the same {key}"
        )


def found(sessions: Sequence[dict[str, Any]], key: str) -> list[str]:
    """The values of sessions that computed something."""
    return sorted({str(session[key]) for session in sessions if key in session and session.get("chunks") != 0})

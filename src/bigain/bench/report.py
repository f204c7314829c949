"""Records read: both talents and the cost of every setting, with intervals and paired tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bigain.bench.runner import FILE
from bigain.bench.store import DecisionRow, Store
from bigain.metrics.distances import Difference, Distance, difference
from bigain.metrics.intervals import Estimate, Share, bootstrap_mean, median_interval, wilson
from bigain.metrics.multilabel import macro_precision, ranking_precision
from bigain.metrics.paired import holm, mcnemar, share_difference
from bigain.registry import miss


@dataclass(frozen=True)
class Row:
    """One setting: what is known of it, None where it was not measured."""

    label: str
    name: str
    values: dict[str, Any]
    accuracy: Share | None = None
    ranking: Estimate | None = None  # label-ranking average precision, multi-label only
    macro: float | None = None  # class-macro average precision, multi-label only
    change: Estimate | None = None  # of accuracy against the reference, on the same images
    p: float | None = None  # McNemar, Holm over the table
    agreement: Share | None = None  # same label as the reference
    evaluations: float | None = None  # a decision
    seconds: float | None = None  # an evaluation
    speed: Estimate | None = None  # the uncompressed model's seconds over these, on the same images
    flops: int | None = None
    saved: float | None = None
    tokens: list[list[int]] | None = None  # tokens, queries and keys at the compressed sites, each kind once
    samples: dict[str, Any] | None = None
    distance_changes: dict[str, Difference] | None = None  # to real images, less the reference's
    paper: dict[str, Any] | None = None


@dataclass(frozen=True)
class Report:
    """All settings of a record."""

    title: str
    about: str
    experiment: dict[str, Any]
    sessions: list[dict[str, Any]]
    rows: list[Row]
    examples: dict[str, list[bytes]]  # PNGs of the first generated images of each setting
    dense: str | None = None  # label of the uncompressed setting
    against: str = "uncompressed"  # what changes, p-values and agreement refer to


def find_record(place: Path) -> Path:
    """A record file, or the one in a run folder."""
    path = place / FILE if place.is_dir() else place
    if not path.is_file():
        raise FileNotFoundError(f"no record {path}; `bigain run FILE --out {place}` makes one")
    return path


def read_report(place: Path, against: str | None = None) -> Report:
    """Of a run folder or record; `against` names the rows that the others are compared with, value by value.

    The label of one setting compares all with that one; without it all are compared with the uncompressed model.
    """
    store = Store(find_record(place), read_only=True)
    meta = store.meta()
    found = store.settings()
    known = {label: Found(store.decisions(number), store.measures(number)) for number, label, _ in found}
    dense = next((label for _, label, spec in found if not spec["attach"]), None)
    references = {label: dense for _, label, _ in found} if against is None else partners(found, against)
    rows = [
        make_row(label, spec, known[label], known.get(references[label] or ""), known.get(dense or ""))
        for _, label, spec in found
    ]
    rows = [with_paper(row, meta["paper"]) for row in correct(rows)]
    examples = {label: [r.example for r in store.generated(number) if r.example] for number, label, _ in found}
    store.close()
    return Report(
        meta["title"], meta["about"], meta["experiment"], meta["sessions"], rows, examples, dense,
        against or "uncompressed",
    )  # fmt: skip


def partners(found: list[tuple[int, str, dict[str, Any]]], name: str) -> dict[str, str | None]:
    """For each setting the one called `name` with the same swept values, or the one that has `name` as its label."""
    labels = [label for _, label, _ in found]
    if name in labels:
        return dict.fromkeys(labels, name)
    known = list(dict.fromkeys(spec["name"] for _, _, spec in found))
    if name not in known:
        raise ValueError(miss("row to compare with", name, [*known, *labels]))
    own = [(label, spec["values"]) for _, label, spec in found if spec["name"] == name]
    return {label: next((other for other, values in own if values == spec["values"]), None) for _, label, spec in found}


Decisions = dict[str, DecisionRow]


class Found(NamedTuple):
    """What a record has of a setting."""

    decisions: Decisions
    measures: dict[str, Any]


def make_row(label: str, spec: dict[str, Any], own: Found, other: Found | None, dense: Found | None) -> Row:
    row: dict[str, Any] = {"label": label, "name": spec["name"], "values": spec["values"]}
    if own.decisions:
        row |= classification(own.decisions)
    if other and own is not other:
        if own.decisions and other.decisions:
            row |= comparison(own.decisions, other.decisions)
        row["distance_changes"] = distance_changes(*(found.measures.get("samples") or {} for found in (own, other)))
    flops = own.measures.get("flops")
    row |= {"flops": flops, "tokens": own.measures.get("tokens"), "samples": own.measures.get("samples")}
    if flops and dense and dense.measures.get("flops"):
        row["saved"] = 1 - flops / dense.measures["flops"]
    if own.decisions and dense and own is not dense and dense.decisions:
        row["speed"] = speed(own.decisions, dense.decisions)
    return Row(**row)


def classification(own: Decisions) -> dict[str, Any]:
    rows = list(own.values())
    found: dict[str, Any] = {
        "accuracy": wilson(sum(right(r) for r in rows), len(rows)),
        "evaluations": float(np.mean([r.evaluations for r in rows])),
        "seconds": float(np.median([r.seconds / r.evaluations for r in rows])),
    }
    if any(len(r.truth) != 1 for r in rows):
        labels = np.zeros((len(rows), len(rows[0].ranking)), dtype=bool)
        for place, r in zip(labels, rows, strict=True):
            place[list(r.truth)] = True
        if len(rows) > 1:  # one image has no interval
            found["ranking"] = bootstrap_mean(ranking_precision(np.array([r.ranking for r in rows]), labels))
        found["macro"] = macro_precision(np.array([r.chances for r in rows]), labels)
    return found


def comparison(own: Decisions, other: Decisions) -> dict[str, Any]:
    """On the images that both have seen."""
    names = sorted(own.keys() & other.keys())
    if not names:  # two processes may be at different images
        return {}
    a, b = (np.array([right(side[name]) for name in names]) for side in (own, other))
    same = sum(own[name].predicted == other[name].predicted for name in names)
    return {"change": share_difference(a, b), "p": mcnemar(a, b).p, "agreement": wilson(same, len(names))}


def speed(own: Decisions, dense: Decisions) -> Estimate | None:
    """How many times as fast an evaluation is as the uncompressed model's, on the images both have seen: the median.

    Images are timed a piece at a time, so that all of a piece have one ratio, which counts once.
    """
    pairs = [(own[name], dense[name]) for name in sorted(own.keys() & dense.keys())]
    ratios = {round(b.seconds / b.evaluations * a.evaluations / a.seconds, 9) for a, b in pairs if a.seconds}
    return median_interval(np.array(list(ratios))) if ratios else None


def distance_changes(own: dict[str, Any], other: dict[str, Any]) -> dict[str, Difference]:
    """By how much each distance to real images is larger than the other's, where there are as many images."""
    shared = [name for name, value in own.items() if isinstance(value, dict) and "parts" in value and name in other]
    shared = shared if own.get("n") == other.get("n") else []
    return {name: difference(Distance(**own[name]), Distance(**other[name])) for name in shared}


def right(row: DecisionRow) -> bool:
    """For several labels: the winner is one of them."""
    return row.predicted in row.truth


def correct(rows: list[Row]) -> list[Row]:
    """p-values corrected for their number (Holm)."""
    tested = [row for row in rows if row.p is not None]
    corrected = (
        dict(zip([row.label for row in tested], holm(np.array([row.p for row in tested])), strict=True))
        if tested
        else {}
    )
    return [Row(**(vars(row) | {"p": float(corrected[row.label])})) if row.p is not None else row for row in rows]


def with_paper(row: Row, paper: Sequence[dict[str, Any]]) -> Row:
    for numbers in paper:
        values = {key: numbers.get(key) for key in row.values}
        if numbers.get("name") == row.name and values == row.values:
            return Row(**(vars(row) | {"paper": numbers}))
    return row

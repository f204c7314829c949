"""Join records of shares of one experiment into one record, and say what is missing."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from bigain.experiments.belonging import check_together
from bigain.experiments.changes import as_text
from bigain.experiments.chunks import SIZES
from bigain.experiments.folder import FILE, images_of, picture_name, write_whole
from bigain.experiments.report import find_record
from bigain.experiments.store import Store

DECISIONS = "image, truth, predicted, ranking, chances, evaluations, steps, errors, seconds"
GENERATED = "number, subject, hash, example, seconds"


class Gap(NamedTuple):
    """Results of one setting that no record has."""

    label: str
    task: str
    lacking: int
    wanted: int


class Merged(NamedTuple):
    """What was joined, and what is missing; `shares` are those that would have it, as text."""

    folder: Path
    records: int
    decisions: int
    images: int
    gaps: list[Gap]
    shares: list[str]


def merge(places: Sequence[Path], folder: Path) -> Merged:
    """Join records into that of a folder, which may have one of the same experiment already.

    Records of other experiments, images, weights, code or versions are refused before anything is written.
    """
    with ExitStack() as stack:
        paths = {find_record(place).resolve(): find_record(place) for place in places}
        target = folder / FILE
        paths.pop(target.resolve(), None)
        sources = [stack.enter_context(closing(Store(path, read_only=True))) for path in paths.values()]
        begun = [stack.enter_context(closing(Store(target, read_only=True)))] if target.exists() else []
        if not sources:
            raise ValueError(f"nothing to merge into {folder}; name the run folders of the shares")
        check_together([*begun, *sources])
        for source in sources:
            check_pictures(source)
    new = not folder.exists()
    try:
        with ExitStack() as stack:
            sources = [stack.enter_context(closing(Store(path, read_only=True))) for path in paths.values()]
            folder.mkdir(parents=True, exist_ok=True)
            store = stack.enter_context(closing(Store(target)))
            with store.writing():
                for source in sources:
                    join(store, source)
            return Merged(folder, len(paths), count(store, "decisions"), count(store, "generated"), *missing(store))
    except BaseException:
        if new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def check_pictures(source: Store) -> None:
    """Check that the images of a record lie beside it."""
    for setting, label, _ in source.settings():
        for (number,) in source.rows("select number from generated where setting = ?", setting):
            path = images_of(source.path.parent, setting) / picture_name(number)
            if not path.is_file():
                raise FileNotFoundError(f"{path}, an image of {label}, is missing; copy the whole run folder")


def join(store: Store, source: Store) -> None:
    """Add what one record has to another one."""
    base = store.base
    plan = joined_plan(store.plan(), source.plan())
    base.executemany("insert or ignore into meta values (?, ?)", source.rows("select key, value from meta"))
    base.execute("insert or replace into meta values ('plan', ?)", (as_text(plan),))
    base.executemany("insert or ignore into hashes values (?, ?, ?)", source.rows("select * from hashes"))
    base.executemany("insert or ignore into skipped values (?, ?)", source.rows("select * from skipped"))
    known = set(store.rows("select started, ended, facts from sessions"))
    sessions = [row for row in source.rows("select started, ended, facts from sessions") if row not in known]
    base.executemany("insert into sessions values (?, ?, ?)", sessions)
    added = 0
    for old, label, _ in source.settings():
        spec = source.rows("select spec from settings where id = ?", old)[0][0]
        base.execute("insert or ignore into settings (label, spec) values (?, ?)", (label, spec))
        [(new,)] = store.rows("select id from settings where label = ?", label)
        copy_pictures(store, source, new, old)
        added += add_rows(store, source, ("decisions", DECISIONS), (new, old, label))
        added += add_rows(store, source, ("generated", GENERATED), (new, old, label))
    if added:
        base.execute("delete from measures")  # of fewer results


def joined_plan(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The larger of two plans: rows may have been added, and n raised; a smaller set of images begins a larger one."""
    settings: dict[str, dict[str, int]] = dict(a.get("settings", []))
    for label, tasks in b.get("settings", []):
        own = settings.get(label, {})
        settings[label] = {task: max(own.get(task, 0), tasks.get(task, 0)) for task in own | tasks}
    return {"settings": list(settings.items()), "images": max(a.get("images", []), b.get("images", []), key=len)}


def copy_pictures(store: Store, source: Store, new: int, old: int) -> None:
    place = images_of(store.path.parent, new)
    for (number,) in source.rows("select number from generated where setting = ?", old):
        place.mkdir(parents=True, exist_ok=True)
        name = picture_name(number)
        if not (place / name).exists():
            write_whole(place / name, (images_of(source.path.parent, old) / name).read_bytes())


def add_rows(store: Store, source: Store, table: tuple[str, str], setting: tuple[int, int, str]) -> int:
    """Add rows of a table; where both records have one, they must agree in all but the time it took."""
    (name, columns), (new, old, label) = table, setting
    marks = ", ".join("?" * (columns.count(",") + 2))
    key = columns.partition(",")[0]
    added = 0
    for row in source.base.execute(f"select {columns} from {name} where setting = ?", (old,)):
        here = store.base.execute(f"insert or ignore into {name} values ({marks})", (new, *row)).rowcount
        added += here
        if here:
            continue
        [other] = store.rows(f"select {columns} from {name} where setting = ? and {key} = ?", new, row[0])
        if other[:-1] != row[:-1]:
            raise ValueError(
                f"{source.path} and an earlier record have different results for {key} {row[0]} of {label}; "
                "leave out one of them, or compute it again"
            )
    return added


def count(store: Store, table: str) -> int:
    return int(store.rows(f"select count(*) from {table}")[0][0])


def missing(store: Store) -> tuple[list[Gap], list[str]]:
    """What no record has, and the shares that would have it."""
    plan = store.plan()
    shards = {str(session["shard"]) for session in store.sessions() if session.get("shard")}
    parts = {int(text.partition("/")[2]) for text in shards}
    gaps, absent = [], set()
    skipped = store.skipped().keys()
    for place, (label, tasks) in enumerate(plan.get("settings", [])):
        [(setting,)] = store.rows("select id from settings where label = ?", label)
        for task, wanted in tasks.items():
            lacking = [i for i, there in enumerate(present(store, setting, task, plan, skipped)) if not there]
            lacking = [i for i in lacking if i < wanted]
            if lacking:
                gaps.append(Gap(label, task, len(lacking), wanted))
            absent |= {(i // SIZES[task] + place) % number + 1 for i in lacking for number in parts}
    if len(parts) != 1:
        return gaps, []
    (number,) = parts
    return gaps, [f"{part}/{number}" + " (unfinished)" * (f"{part}/{number}" in shards) for part in sorted(absent)]


def present(store: Store, setting: int, task: str, plan: dict[str, Any], skipped: Any) -> list[bool]:
    """Whether each image of a setting is there."""
    if task == "classify":
        known = {name for (name,) in store.rows("select image from decisions where setting = ?", setting)}
        return [name in known or name in skipped for name in plan["images"]]
    made = {number for (number,) in store.rows("select number from generated where setting = ?", setting)}
    return [number in made for number in range(max(own.get(task, 0) for _, own in plan["settings"]))]

"""Damaged records, and files that are none: what is said, with which exit code, and that they are left alone."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from bigain.experiments.folder import FILE
from helpers.small_runs import check, state

DAMAGED = "is a damaged record ({why}); restore it from a copy, or delete it and run again"
FOREIGN = "is not a bigain record ({why}) and is left unchanged; use a run folder or its record, or another folder"


def edit(*statements: str) -> Callable[[Path], None]:
    """SQL on the record."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            for statement in statements:
                base.execute(statement)

    return change


def cut(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def instead(data: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(data)

    return change


def foreign(*statements: str) -> Callable[[Path], None]:
    """Another program's SQLite file in the record's place."""

    def change(path: Path) -> None:
        path.unlink()
        edit(*statements)(path)

    return change


def zeroed(path: Path) -> None:
    """Every page but the first."""
    size = path.stat().st_size
    os.truncate(path, 4096)
    os.truncate(path, size)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


OLD = ("drop table hashes", "pragma application_id = 0", "pragma user_version = 0")  # as records were at first
NOTES = ("create table notes (text)", "insert into notes values ('mine')")


class Damage(NamedTuple):
    """What is done to a record, and what is said of it.

    Damage in the file is seen before anything is written, in rows when they are read; a run reads no `results`.
    """

    change: Callable[[Path], None]
    said: str
    why: str = ""
    seen: Literal["file", "rows", "results"] = "file"


DAMAGES = {
    "cut in half": Damage(cut(20_480), DAMAGED),
    "cut in the header": Damage(cut(60), DAMAGED, "only 60 bytes are left"),
    "zeros": Damage(zeroed, DAMAGED),
    "renamed column": Damage(
        edit("alter table decisions rename column predicted to guess"), DAMAGED, "table decisions has the columns"
    ),
    "missing column": Damage(edit("alter table generated drop column example"), DAMAGED, "table generated has the"),
    "missing table": Damage(edit("drop table measures"), DAMAGED, "no table measures"),
    "missing table of an old record": Damage(edit(*OLD, "drop table skipped"), DAMAGED, "no table skipped"),
    "missing hashes": Damage(edit("drop table hashes"), DAMAGED, "no table hashes"),
    "another program's": Damage(foreign(*NOTES), FOREIGN, "its tables: notes"),
    "another program's, marked": Damage(foreign(*NOTES, "pragma application_id = 7"), FOREIGN, "its tables: notes"),
    "another program's, in WAL mode": Damage(
        foreign("pragma journal_mode = wal", *NOTES), FOREIGN, "its tables: notes"
    ),
    "another program's, still empty": Damage(foreign("pragma application_id = 7"), FOREIGN, "its tables: none"),
    "no database": Damage(instead(b"These are notes.\n" * 20), FOREIGN, "not an SQLite file"),
    "a folder": Damage(folder, FOREIGN, "a folder"),
    "newer": Damage(edit("pragma user_version = 9"), "was written by a newer bigain (record version 9, this one reads"),
}
# edits of rows, and what is said of them; a run reads no results, but all else
ROWS = {
    "update settings set spec = '[1' where id = 2": "settings, todo(factor=2): Expecting",
    "update settings set spec = '[1]' where id = 2": "settings, todo(factor=2): expected a dict, got [1]",
    "update sessions set facts = 'x'": "sessions, facts: Expecting value",
    "update measures set value = '{\"a'": "measures, decision_flops: Unterminated string",
}
RESULTS = {
    "update meta set value = '{' where key = 'experiment'": "meta, experiment: Expecting",
    "delete from meta where key = 'words'": "meta has no words",
    "update settings set spec = '{}' where id = 2": "KeyError: 'name'",
    "update decisions set ranking = '[1,'": "decisions, …Expecting value",
    "update decisions set truth = '3'": "decisions, …expected a list, got 3",
    "update decisions set seconds = 'long'": "decisions, …expected a number, got text",
    "update decisions set evaluations = 0": "ZeroDivisionError",
    "update decisions set errors = x'00ff'": "decisions, …incorrect header",
    "update measures set value = '\"few\"' where name = 'flops'": "TypeError",
}
DAMAGES |= {sql: Damage(edit(sql), DAMAGED, why, "rows") for sql, why in ROWS.items()}
DAMAGES |= {sql: Damage(edit(sql), DAMAGED, why, "results") for sql, why in RESULTS.items()}


def expected(damage: Damage) -> str:
    return damage.said.replace("{why}", f"{damage.why}…") if damage.why else damage.said.replace("{why}", "…")


@pytest.mark.parametrize("name", DAMAGES)
def test_reading_a_damaged_record(name: str, place: Path) -> None:
    record, damage = place / "run" / FILE, DAMAGES[name]
    damage.change(record)
    before = state(place / "run")
    text = f"error: {record} {expected(damage)}"
    check(("report", place / "run"), text, 2)
    check(("report", record if record.is_file() else record.parent, "--json"), text, 2)
    check(("report", place / "run", "--record", place / "small.sqlite"), text, 2)
    assert state(place / "run") == before
    assert not list(place.glob("*small*"))


@pytest.mark.parametrize("name", [name for name, damage in DAMAGES.items() if damage.seen != "results"])
def test_running_into_a_damaged_record(name: str, finished: Path, place: Path) -> None:
    record, damage = place / "run" / FILE, DAMAGES[name]
    damage.change(record)
    before = state(place / "run")
    check(("run", finished / "tiny.toml", "--out", place / "run"), f"error: {record} {expected(damage)}", 2)
    after = state(place / "run")
    assert after == before if damage.seen == "file" else after.keys() == before.keys()


@pytest.mark.parametrize("name", ["another program's", "cut in half"])
def test_a_demo_into_a_damaged_record(name: str, place: Path) -> None:
    folder = place / "demo" / "run-10-4"
    folder.mkdir(parents=True)
    shutil.copy(place / "run" / FILE, folder / FILE)
    DAMAGES[name].change(folder / FILE)
    before = state(folder)
    check(("demo", "--quick", "--out", place / "demo"), f"{folder / FILE} {expected(DAMAGES[name])}", 2)
    assert state(folder) == before


@pytest.mark.parametrize("data", [b"", None])
def test_a_run_begins_where_there_is_nothing_yet(data: bytes | None, finished: Path, place: Path) -> None:
    record = place / "run" / FILE
    record.write_bytes(data) if data is not None else foreign("pragma journal_mode = wal")(record)
    text = f"{record} has no results yet; create them with `bigain run FILE --out {place / 'run'}`"
    check(("report", place / "run"), text, 2)
    check(("run", finished / "tiny.toml", "--out", place / "run"), "results in", 0)
    assert set(state(place / "run")) == {FILE}


@pytest.mark.parametrize("name", ["another program's", "no database", "a folder", "cut in the header"])
def test_a_small_copy_replaces_records_only(name: str, place: Path) -> None:
    target = place / "target" / FILE
    target.parent.mkdir()
    shutil.copy(place / "run" / FILE, target)
    DAMAGES[name].change(target)
    before = state(target.parent)
    text = f"error: {target} already exists and is not a record; use another file"
    check(("report", place / "run", "--record", target), text, 2)
    assert state(target.parent) == before


def test_a_small_copy_needs_a_folder(place: Path) -> None:
    text = f"no folder {place / 'no'} for the record a.sqlite; create it first"
    check(("report", place / "run", "--record", place / "no" / "a.sqlite"), text, 3)

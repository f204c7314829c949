"""Results of an experiment in one SQLite file: what is done, so that nothing is lost and nothing is done twice."""

import difflib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bigain.bench.experiment import Experiment, Setting

MAGIC = b"SQLite format 3"
SCHEMA = """
create table if not exists meta (key text primary key, value text not null);
create table if not exists sessions (started text, ended text, facts text not null);
create table if not exists settings (id integer primary key, label text unique not null, spec text not null);
create table if not exists decisions (
    setting integer references settings, image text, truth text not null, predicted integer not null,
    ranking text not null, chances text not null, evaluations integer not null, steps text not null, errors blob,
    seconds real not null, primary key (setting, image)) without rowid;
create table if not exists skipped (image text primary key, reason text not null) without rowid;
create table if not exists generated (
    setting integer references settings, number integer, subject text not null, hash text not null, example blob,
    seconds real not null, primary key (setting, number)) without rowid;
create table if not exists measures (
    setting integer references settings, name text, value text not null, primary key (setting, name)) without rowid;
"""


class DecisionRow(NamedTuple):
    """One classified image."""

    image: str
    truth: tuple[int, ...]
    predicted: int
    ranking: tuple[int, ...]
    chances: tuple[float, ...]
    evaluations: int
    steps: tuple[int, ...]
    errors: np.ndarray | None
    seconds: float


class GeneratedRow(NamedTuple):
    """One generated image; `example` is its PNG where the record keeps it."""

    number: int
    subject: str
    hash: str
    example: bytes | None
    seconds: float


class Store:
    """One run's SQLite file. Every write is one transaction, so a kill at any moment leaves it whole."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self.path = path
        if read_only:
            self.base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=120)
            return
        self.base = sqlite3.connect(path, timeout=120, isolation_level=None)
        self.base.execute("pragma journal_mode = wal")
        self.base.execute("pragma synchronous = full")
        with self.writing():
            for statement in SCHEMA.split(";"):
                self.base.execute(statement)

    def close(self) -> None:
        self.base.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        self.base.execute("begin immediate")
        try:
            yield
        except BaseException:
            if self.base.in_transaction:  # a full disk has rolled back already
                self.base.execute("rollback")
            raise
        self.base.execute("commit")

    def begin(self, experiment: Experiment, data: dict[str, Any] | None = None) -> dict[str, int]:
        """Write down the experiment, or check that it is the one of before; ids of its settings by label.

        Settings may be added or left out later, and n may grow; what decides the results of a setting may not change,
        nor may the images: `data` is the data set's identity.
        """
        wanted = {"experiment": as_text(experiment.identity())} | ({"data": as_text(data)} if data else {})
        wanted |= {f"setting {s.label}": as_text([a.identity() for a in s.attach]) for s in experiment.settings}
        with self.writing():
            before = dict(self.base.execute("select key, value from meta"))
            for key, text in wanted.items():
                if before.get(key, text) != text:
                    raise ValueError(changed(self.path, key, before[key], text))
            self.base.executemany("insert or ignore into meta values (?, ?)", wanted.items())
            words = json.dumps({"title": experiment.title, "about": experiment.about, "paper": list(experiment.paper)})
            self.base.execute("insert or replace into meta values ('words', ?)", (words,))
            for setting in experiment.settings:
                spec = json.dumps({"name": setting.name, "values": setting.values, "attach": attach_json(setting)})
                self.base.execute("insert or ignore into settings (label, spec) values (?, ?)", (setting.label, spec))
        ids = {label: number for number, label in self.base.execute("select id, label from settings")}
        return {setting.label: ids[setting.label] for setting in experiment.settings}

    def log_session(self, started: str, facts: dict[str, Any]) -> int:
        with self.writing():
            cursor = self.base.execute("insert into sessions values (?, null, ?)", (started, json.dumps(facts)))
            return int(cursor.lastrowid or 0)

    def end_session(self, session: int, ended: str) -> None:
        with self.writing():
            self.base.execute("update sessions set ended = ? where rowid = ?", (ended, session))

    def classified(self, setting: int) -> set[str]:
        return {name for (name,) in self.base.execute("select image from decisions where setting = ?", (setting,))}

    def skipped(self) -> dict[str, str]:
        return dict(self.base.execute("select image, reason from skipped"))

    def made(self, setting: int) -> set[int]:
        return {number for (number,) in self.base.execute("select number from generated where setting = ?", (setting,))}

    def add_decisions(self, setting: int, rows: Sequence[DecisionRow], skipped: dict[str, str]) -> None:
        values = [
            (setting, r.image, json.dumps(r.truth), r.predicted, json.dumps(r.ranking),
             json.dumps([round(chance, 6) for chance in r.chances]), r.evaluations, json.dumps(r.steps),
             pack(r.errors), r.seconds)
            for r in rows
        ]  # fmt: skip
        with self.writing():
            self.base.executemany("insert or ignore into decisions values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            self.base.executemany("insert or ignore into skipped values (?, ?)", skipped.items())

    def add_generated(self, setting: int, rows: Sequence[GeneratedRow]) -> None:
        with self.writing():
            self.base.executemany(
                "insert or ignore into generated values (?, ?, ?, ?, ?, ?)", [(setting, *row) for row in rows]
            )

    def add_measure(self, setting: int, name: str, value: Any) -> None:
        with self.writing():
            self.base.execute("insert or replace into measures values (?, ?, ?)", (setting, name, json.dumps(value)))

    def measures(self, setting: int) -> dict[str, Any]:
        rows = self.base.execute("select name, value from measures where setting = ?", (setting,))
        return {name: json.loads(value) for name, value in rows}

    def decisions(self, setting: int) -> dict[str, DecisionRow]:
        rows = self.base.execute(
            "select image, truth, predicted, ranking, chances, evaluations, steps, errors, seconds "
            "from decisions where setting = ? order by image",
            (setting,),
        )
        return {
            image: DecisionRow(
                image, tuple(json.loads(truth)), predicted, tuple(json.loads(ranking)), tuple(json.loads(chances)),
                evaluations, tuple(json.loads(steps)), unpack(errors, len(json.loads(ranking))), seconds,
            )
            for image, truth, predicted, ranking, chances, evaluations, steps, errors, seconds in rows
        }  # fmt: skip

    def generated(self, setting: int) -> list[GeneratedRow]:
        rows = self.base.execute(
            "select number, subject, hash, example, seconds from generated where setting = ? order by number",
            (setting,),
        )
        return [GeneratedRow(*row) for row in rows]

    def meta(self) -> dict[str, Any]:
        """The experiment as it was written down, its words, and the sessions that worked on it."""
        rows = dict(self.base.execute("select key, value from meta"))
        sessions = [
            {"started": started, "ended": ended, **json.loads(facts)}
            for started, ended, facts in self.base.execute("select started, ended, facts from sessions order by rowid")
        ]
        return {"experiment": json.loads(rows["experiment"]), **json.loads(rows["words"]), "sessions": sessions}

    def settings(self) -> list[tuple[int, str, dict[str, Any]]]:
        """(id, label, spec) in the order of the file."""
        rows = self.base.execute("select id, label, spec from settings order by id")
        return [(number, label, json.loads(spec)) for number, label, spec in rows]

    def write_record(self, path: Path) -> None:
        """A small copy for keeping: all that a report needs, without the errors of each trial."""
        if path.exists() and path.samefile(self.path):
            raise ValueError(f"{path} is the run itself; name another file for the small copy of its record")
        if path.exists() and path.read_bytes()[: len(MAGIC)] != MAGIC:
            raise ValueError(f"{path} is there already and is no record; name another file")
        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)
        self.base.execute("vacuum into ?", (str(part),))
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy.execute("update decisions set errors = null, steps = '[]'")
            (several,) = copy.execute("select count(*) from decisions where json_array_length(truth) <> 1").fetchone()
            if not several:  # then reports look at the winner only
                copy.execute("update decisions set ranking = '[]', chances = '[]'")
            copy.execute("vacuum")
        part.replace(path)


def pack(errors: np.ndarray | None) -> bytes | None:
    return None if errors is None else zlib.compress(errors.astype("<f4").tobytes())


def unpack(data: bytes | None, classes: int) -> np.ndarray | None:
    return None if data is None else np.frombuffer(zlib.decompress(data), "<f4").reshape(classes, -1)


def attach_json(setting: Setting) -> list[dict[str, Any]]:
    return [vars(attach) for attach in setting.attach]


def as_text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)


def changed(path: Path, key: str, before: str, now: str) -> str:
    """What differs between the experiment under the results and the one asked for now."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "recorded", "asked for", lineterm="", n=1)
    return (
        f"{path} holds results of another experiment; take a new folder, or undo this change of {key}:\n"
        + "\n".join(lines)
    )

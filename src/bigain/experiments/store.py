"""The results of an experiment in one SQLite file, so that nothing is lost and nothing is done twice."""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from bigain.experiments.changes import as_text, changed, compare
from bigain.experiments.experiment import Experiment, Setting
from bigain.experiments.migration import migrate
from bigain.experiments.rows import MANY_CLASSES, DecisionRow, GeneratedRow, pack, unpack
from bigain.experiments.schema import RecordError, damaged, open_reading, open_writing, recognise

T = TypeVar("T")
Hashes = dict[str, dict[str, str]]  # kind (image, weights, profile, source): hashes by name


class Store:
    """The SQLite file of a run. Every write is one transaction, so a kill never damages it."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.base = open_reading(path) if read_only else open_writing(path)

    def close(self) -> None:
        """Close and leave a single file, unless another process still uses it."""
        if not self.read_only:
            with suppress(sqlite3.OperationalError, sqlite3.ProgrammingError):  # in use elsewhere; closed already
                self.base.execute("pragma busy_timeout = 0")
                self.base.execute("pragma journal_mode = delete")
        self.base.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        try:
            self.base.execute("begin immediate")
            yield
            self.base.execute("commit")
        except BaseException as error:
            if self.base.in_transaction:  # a full disk has rolled back already
                self.base.execute("rollback")
            if isinstance(error, sqlite3.OperationalError):
                again = "results so far are kept; run the same command to continue"
                raise sqlite3.OperationalError(f"cannot write {self.path}: {error}; {again}") from error
            if isinstance(error, sqlite3.DatabaseError):
                raise damaged(self.path, error) from error
            raise

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self.base.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from error

    def decoded(self, text: Any, kind: type[T], place: str) -> T:
        """Parse JSON from a table and check its type."""
        try:
            found = json.loads(text)
        except (ValueError, TypeError) as error:
            raise damaged(self.path, f"{place}: {error}") from error
        if not isinstance(found, kind):
            raise damaged(self.path, f"{place}: expected a {kind.__name__}, got {found!r:.40}")
        return found

    def begin(
        self,
        experiment: Experiment,
        data: dict[str, Any] | None = None,
        hashes: Hashes | None = None,
        plan: dict[str, Any] | None = None,
    ) -> dict[str, int]:
        """Record the experiment, or check that it is the recorded one; -> ids of its settings by label.

        Settings may be added or removed later, and n may grow. What decides the results of a setting may not change,
        nor may the images: `data` is the dataset's identity, `hashes` are those of images, weights and code. `plan` is
        how many images each setting has by task, for readers who want to know what is missing.
        """
        wanted = {"experiment": as_text(experiment.identity())} | ({"data": as_text(data)} if data else {})
        wanted |= {f"setting {s.label}": as_text(s.identity()) for s in experiment.settings}
        with self.writing():
            known = {kind: self.hashes(kind) for kind in hashes or {}}
            if "source" in known:  # the clearest word where a file was changed
                compare(self.path, "source", known["source"], (hashes or {})["source"])
            before = {
                key: as_text(migrate(json.loads(value))) for key, value in self.rows("select key, value from meta")
            }
            for key, text in wanted.items():
                if before.get(key, text) != text:
                    raise ValueError(changed(self.path, key, before[key], text))
            for kind, found in (hashes or {}).items():
                compare(self.path, kind, known[kind], found)
                self.base.executemany(
                    "insert or ignore into hashes values (?, ?, ?)", [(kind, *pair) for pair in found.items()]
                )
            self.base.executemany("insert or ignore into meta values (?, ?)", wanted.items())
            words = json.dumps({"title": experiment.title, "about": experiment.about, "paper": list(experiment.paper)})
            later = {"words": words} | ({} if plan is None else {"plan": as_text(plan)})
            self.base.executemany("insert or replace into meta values (?, ?)", later.items())
            for setting in experiment.settings:
                spec = json.dumps({"name": setting.name, "values": setting.values, **setting_json(setting)})
                self.base.execute("insert or ignore into settings (label, spec) values (?, ?)", (setting.label, spec))
        ids = {label: number for number, label, _ in self.settings()}
        return {setting.label: ids[setting.label] for setting in experiment.settings}

    def hashes(self, kind: str) -> dict[str, str]:
        """Hashes of images, weights or source files by name; empty for older records without hashes."""
        if not self.rows("select 1 from sqlite_master where name = 'hashes'"):
            return {}
        return dict(self.rows("select name, hash from hashes where kind = ?", kind))

    def check_dtype(self, dtype: str) -> None:
        """Check that the dtype is the recorded one; another device with the same dtype only rounds differently."""
        known = {found["dtype"] for found in self.sessions() if "dtype" in found}
        if known - {dtype}:
            raise ValueError(
                f"{self.path} has results in {', '.join(sorted(known))}, but the model is now in {dtype}; "
                "use the same device as before, or a new folder"
            )

    def log_session(self, started: str, environment: dict[str, Any]) -> int:
        with self.writing():
            cursor = self.base.execute("insert into sessions values (?, null, ?)", (started, json.dumps(environment)))
            return int(cursor.lastrowid or 0)

    def end_session(self, session: int, ended: str) -> None:
        with self.writing():
            self.base.execute("update sessions set ended = ? where rowid = ?", (ended, session))

    def update_session(self, session: int, environment: dict[str, Any]) -> None:
        """Add information to a running session."""
        with self.writing():
            self.base.execute(
                "update sessions set facts = json_patch(facts, ?) where rowid = ?", (json.dumps(environment), session)
            )

    def sessions(self) -> list[dict[str, Any]]:
        rows = self.rows("select started, ended, facts from sessions order by rowid")
        return [
            {"started": started, "ended": ended, **migrate(self.decoded(facts, dict, "sessions, facts"))}
            for started, ended, facts in rows
        ]

    def has_decisions(self, setting: int, names: Sequence[str]) -> bool:
        """Whether each of these images was decided or skipped; looked up, so that a large record needs no memory."""
        marks = ", ".join("?" * len(names))
        decided = self.rows(f"select image from decisions where setting = ? and image in ({marks})", setting, *names)
        skipped = self.rows(f"select image from skipped where image in ({marks})", *names)
        return {name for (name,) in decided + skipped} == set(names)

    def has_generated(self, setting: int, first: int, last: int) -> bool:
        (known,) = self.rows(
            "select count(*) from generated where setting = ? and number between ? and ?", setting, first, last - 1
        )
        return known[0] == last - first

    def skipped(self) -> dict[str, str]:
        return dict(self.rows("select image, reason from skipped"))

    def add_decisions(self, setting: int, rows: Sequence[DecisionRow], skipped: dict[str, str]) -> None:
        values = [
            (setting, r.image, json.dumps(r.truth), r.predicted, json.dumps(r.ranking),
             json.dumps([round(chance, 6) for chance in r.chances]), r.evaluations, json.dumps(r.timesteps),
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
        rows = self.rows("select name, value from measures where setting = ?", setting)
        return {name: self.decoded(value, object, f"measures, {name}") for name, value in rows}

    def decisions(self, setting: int) -> dict[str, DecisionRow]:
        return {row.image: row for row in self.each_decision(setting)}

    def each_decision(self, setting: int) -> Iterator[DecisionRow]:
        """The decisions in the order of their images' names, one by one: millions do not fit in memory."""
        query = (
            "select image, truth, predicted, ranking, chances, evaluations, steps, errors, seconds "
            "from decisions where setting = ? order by image"
        )
        try:
            yield from (self._decision(*row) for row in self.base.execute(query, (setting,)))
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from error

    def _decision(
        self, image: str, truth: str, predicted: int, ranking: str, chances: str, evaluations: int, steps: str,
        errors: bytes | None, seconds: float,
    ) -> DecisionRow:  # fmt: skip
        place = f"decisions, {image}"
        own, order, shares, times = (
            tuple(self.decoded(text, list, place)) for text in (truth, ranking, chances, steps)
        )
        if not all(isinstance(number, int | float) for number in (predicted, evaluations, seconds, *own)):
            raise damaged(self.path, f"{place}: expected a number, got text")
        try:
            found = unpack(errors, len(order))
        except (zlib.error, ValueError, TypeError) as error:
            raise damaged(self.path, f"{place}: {error}") from error
        return DecisionRow(image, own, predicted, order, shares, evaluations, times, found, seconds)

    def generated(self, setting: int) -> list[GeneratedRow]:
        rows = self.rows(
            "select number, subject, hash, example, seconds from generated where setting = ? order by number", setting
        )
        return [GeneratedRow(*row) for row in rows]

    def meta(self) -> dict[str, Any]:
        """The recorded experiment, its texts, and its sessions."""
        rows = dict(self.rows("select key, value from meta"))
        missing = [key for key in ("experiment", "words") if key not in rows]
        if missing and not rows:
            raise RecordError(
                f"{self.path} has no results yet; create them with `bigain run FILE --out {self.path.parent}`"
            )
        if missing:
            raise damaged(self.path, f"meta has no {missing[0]}")
        experiment, words = (migrate(self.decoded(rows[key], dict, f"meta, {key}")) for key in ("experiment", "words"))
        return {"experiment": experiment, **words, "sessions": self.sessions()}

    def plan(self) -> dict[str, Any]:
        """What a complete record has: how many images by setting and task, and the images in their order."""
        rows = self.rows("select value from meta where key = 'plan'")
        return self.decoded(rows[0][0], dict, "meta, plan") if rows else {}

    def settings(self) -> list[tuple[int, str, dict[str, Any]]]:
        """(id, label, spec) in the order of the file."""
        rows = self.rows("select id, label, spec from settings order by id")
        return [
            (number, label, migrate(self.decoded(spec, dict, f"settings, {label}"))) for number, label, spec in rows
        ]

    def write_record(self, path: Path) -> None:
        """Write a small copy with all that a report needs, without the errors of each trial."""
        if path.exists() and path.samefile(self.path):
            raise ValueError(f"{path} is the run itself; use another file for the copy")
        if path.exists() and not is_record(path):
            raise ValueError(f"{path} already exists and is not a record; use another file")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"no folder {path.parent} for the record {path.name}; create it first")
        part = path.with_name(f".{path.name}.part")
        try:
            part.unlink(missing_ok=True)
            self._copy(path, part)
            part.replace(path)
        finally:
            for left in (part, part.with_name(f"{part.name}-journal")):
                left.unlink(missing_ok=True)

    def _copy(self, path: Path, part: Path) -> None:
        try:
            self.base.execute("vacuum into ?", (str(part),))
        except sqlite3.OperationalError as error:
            raise OSError(f"cannot write {path}: {error}; is the folder writable, and is there space?") from error
        try:
            shrink(part)
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from error


def is_record(path: Path) -> bool:
    try:
        return recognise(path)
    except RecordError:
        return False


def shrink(path: Path) -> None:
    """Remove what reports do not need."""
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        copy.execute("update decisions set errors = null, steps = '[]'")
        copy.execute("delete from meta where key = 'plan'")
        (several,) = copy.execute("select count(*) from decisions where json_array_length(truth) <> 1").fetchone()
        if not several:  # then reports look at the winner only, and of many classes at the first five
            copy.execute("update decisions set chances = '[]'")
            copy.execute(f"update decisions set ranking = '[]' where json_array_length(ranking) < {MANY_CLASSES}")
            first = f"(select json_group_array(value) from (select value from json_each(ranking) limit {MANY_CLASSES}))"
            copy.execute(f"update decisions set ranking = {first}")
        copy.execute("vacuum")


def setting_json(setting: Setting) -> dict[str, Any]:
    return {"attach": [compression.as_dict() for compression in setting.attach], **setting.own}

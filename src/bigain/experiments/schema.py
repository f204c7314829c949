"""The SQLite file of a record: its tables, how it is recognised, and how it is opened without a trace.

Before anything is written, a file is recognised by reading alone: a `results.sqlite` of another program is left
as it is.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

MAGIC = b"SQLite format 3\0"
HEADER = 100  # bytes
APPLICATION = int.from_bytes(b"BiGn", "big")  # in the header of every record since version 2
VERSION = 2  # 1 has neither the mark nor the table of hashes
FIRST = """
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
SECOND = """
create table if not exists hashes (
    kind text, name text, hash text not null, primary key (kind, name)) without rowid;
"""


class RecordError(ValueError):
    """A file that is not a record, or a damaged one; the text says what to do."""


def damaged(path: Path, what: object) -> RecordError:
    return RecordError(f"{path} is a damaged record ({what}); restore it from a copy, or delete it and run again")


def foreign(path: Path, what: str) -> RecordError:
    return RecordError(
        f"{path} is not a bigain record ({what}) and is left unchanged; use a run folder or its record, or another "
        "folder for the run"
    )


class Header(NamedTuple):
    """The header of an SQLite file."""

    wal: bool
    version: int
    application: int


def read_header(path: Path) -> Header | None:
    """The header, or None for an empty file."""
    if not path.is_file():
        raise foreign(path, "a folder" if path.is_dir() else "not a regular file")
    with path.open("rb") as file:
        data = file.read(HEADER)
    if not data:
        return None
    if not data.startswith(MAGIC):
        raise foreign(path, "not an SQLite file")
    if len(data) < HEADER:
        raise damaged(path, f"only {len(data)} bytes are left")
    return Header(data[18] == 2, int.from_bytes(data[60:64], "big"), int.from_bytes(data[68:72], "big"))


def recognise(path: Path) -> bool:
    """Whether a file is a record; False if it is missing or empty, an error if it is something else."""
    if not path.exists():
        return False
    header = read_header(path)
    if header is None:
        return False
    if header.application == APPLICATION:
        if header.version > VERSION:
            raise RecordError(
                f"{path} was written by a newer bigain (record version {header.version}, this one reads up to "
                f"{VERSION}); update bigain, or use a new folder"
            )
        return True
    try:
        with closing(copied(path) if waiting(path) else connect(path, "mode=ro&immutable=1")) as base:
            names = table_names(base)
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from error
    missing = [name for name in COLUMNS[1] if name not in names]
    if not missing:
        return True  # of the first version, which had no mark
    if not names and header == (header.wal, 0, 0):
        return False  # begun, and stopped before the first table
    if len(missing) < len(COLUMNS[1]):
        raise damaged(path, f"no table {', '.join(missing)}")
    raise foreign(path, f"its tables: {', '.join(sorted(names)[:5]) or 'none'}")


def connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, timeout=120, isolation_level=None)


def table_names(base: sqlite3.Connection) -> set[str]:
    return {name for (name,) in base.execute("select name from sqlite_master where type = 'table'")}


def beside(path: Path) -> list[Path]:
    """The files where SQLite keeps what is not yet in the database."""
    return [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]


def waiting(path: Path) -> bool:
    """Whether such files exist: a process is writing, or was killed."""
    return any(place.exists() and place.stat().st_size for place in beside(path))


def copied(path: Path) -> sqlite3.Connection:
    """The database in memory, read from a copy, so that nothing is written to the file or next to it."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    with tempfile.TemporaryDirectory() as folder:
        for place in (path, *beside(path)):
            if place.exists():
                shutil.copyfile(place, Path(folder) / place.name)
        with closing(sqlite3.connect(Path(folder) / path.name)) as there:
            there.backup(memory)
    return memory


def open_reading(path: Path) -> sqlite3.Connection:
    """Open a record for reading; this leaves no files next to it and works in read-only folders."""
    if not recognise(path):
        raise RecordError(f"{path} has no results yet; create them with `bigain run FILE --out {path.parent}`")
    header = read_header(path)
    try:
        if waiting(path) and os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
            base = connect(path, "mode=rw")  # the last one to close it clears up; mode=ro would leave the files
        elif waiting(path):
            base = copied(path)
        else:  # plain reading of a file in WAL mode would make new files beside it
            base = connect(path, "mode=ro&immutable=1" if header and header.wal else "mode=ro")
        return checked(base, path)
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from error


def open_writing(path: Path) -> sqlite3.Connection:
    """Open a record for writing; create it if it is missing, and upgrade an older one."""
    known = recognise(path)
    try:
        base = connect(path, "mode=rwc")
    except sqlite3.OperationalError as error:
        raise OSError(f"cannot write {path}: {error}; is the folder writable?") from error
    try:
        if known:
            checked(base, path)
        make_tables(base)
        base.execute("pragma journal_mode = wal")  # after the mark: what is in the file itself tells whose it is
        base.execute("pragma synchronous = full")
    except sqlite3.OperationalError as error:
        base.close()
        raise OSError(f"cannot write {path}: {error}; is the folder writable, and is there space?") from error
    except sqlite3.DatabaseError as error:
        base.close()
        raise damaged(path, error) from error
    return base


def make_tables(base: sqlite3.Connection) -> None:
    base.execute("begin immediate")
    (version,) = base.execute("pragma user_version").fetchone()
    if version < VERSION:
        for statement in (FIRST + SECOND).split(";"):
            base.execute(statement)
        base.execute(f"pragma application_id = {APPLICATION}")
        base.execute(f"pragma user_version = {VERSION}")
    base.execute("commit")


def checked(base: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Check that the file is intact and has the tables and columns of its version; -> the same connection."""
    try:
        (found,) = base.execute("pragma quick_check(1)").fetchone()
        if found != "ok":
            raise damaged(path, found.splitlines()[-1])
        (version,) = base.execute("pragma user_version").fetchone()
        check_columns(base, path, COLUMNS[max(1, version)])
    except (RecordError, sqlite3.DatabaseError):
        base.close()
        raise
    return base


def check_columns(base: sqlite3.Connection, path: Path, expected: dict[str, list[str]]) -> None:
    tables = table_names(base)  # not views, which could be any query
    for table, columns in expected.items():
        own = columns_of(base, table) if table in tables else []
        if not own:
            raise damaged(path, f"no table {table}")
        if own != columns:
            raise damaged(path, f"table {table} has the columns {', '.join(own)}, expected {', '.join(columns)}")


def columns_of(base: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in base.execute(f"pragma table_info({table})")]


def columns_in(statements: Iterable[str]) -> dict[str, list[str]]:
    """The columns of each table, as SQLite reads the statements."""
    with closing(sqlite3.connect(":memory:")) as base:
        for statement in statements:
            base.execute(statement)
        return {table: columns_of(base, table) for table in table_names(base)}


COLUMNS = {1: columns_in(FIRST.split(";")), 2: columns_in((FIRST + SECOND).split(";"))}  # by version

"""One file a record: whose it is, what lies beside it, and who may write to it."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bigain.experiments.folder import FILE
from bigain.experiments.report import read_report
from bigain.experiments.rows import DecisionRow
from bigain.experiments.schema import APPLICATION, FIRST, VERSION, RecordError, read_header, recognise
from bigain.experiments.store import Store
from helpers.runs import experiment

ROWS = [{"name": "none", "operator": "none"}, {"name": "merge", "operator": "todo(factor=2)"}]


def fill(path: Path) -> Store:
    store = Store(path)
    ids = store.begin(experiment(path.parent, rows=ROWS, tasks=["classify"]))
    row = DecisionRow("a", (3,), 3, (3, 5), (0.5, 0.5), 10, (500,), None, 1.0)
    store.add_decisions(ids["none"], [row], {})
    return store


def beside(path: Path) -> list[str]:
    return sorted(place.name for place in path.parent.iterdir())


def killed(path: Path, target: Path) -> Path:
    """The files as a kill would leave them, while they are open."""
    target.mkdir(exist_ok=True)
    for place in path.parent.glob(f"{path.name}*"):
        if not place.name.endswith("-shm"):
            shutil.copy(place, target)
    return target / path.name


def seen(path: Path) -> int:
    return sum(row.accuracy is not None for row in read_report(path).rows)


def test_a_record_is_marked_in_the_file_itself_from_the_start(tmp_path: Path) -> None:
    store = fill(tmp_path / FILE)
    assert read_header(tmp_path / FILE) == (True, VERSION, APPLICATION)
    store.close()
    assert read_header(tmp_path / FILE) == (False, VERSION, APPLICATION)
    assert beside(tmp_path / FILE) == [FILE]
    store.close()  # once more does no harm


def test_reading_leaves_nothing_beside_a_record(tmp_path: Path) -> None:
    path = tmp_path / FILE
    fill(path).base.close()  # as old versions left it, in WAL mode
    assert read_header(path) == (True, VERSION, APPLICATION)
    assert seen(path) == 1
    with closing(Store(path, read_only=True)) as store:
        store.write_record(tmp_path / "small.sqlite")
    assert seen(tmp_path / "small.sqlite") == 1
    assert beside(path) == [FILE, "small.sqlite"]


def test_a_killed_run_is_read_and_cleared_up(tmp_path: Path) -> None:
    store = fill(tmp_path / FILE)
    path = killed(tmp_path / FILE, tmp_path / "killed")
    assert beside(path) == [FILE, f"{FILE}-wal"]
    assert seen(path) == 1
    assert beside(path) == [FILE]
    store.close()


def test_a_run_is_read_while_it_works(tmp_path: Path) -> None:
    store = fill(tmp_path / FILE)
    assert seen(tmp_path / FILE) == 1
    row = next(iter(store.decisions(1).values()))
    store.add_decisions(2, [row], {})
    assert seen(tmp_path / FILE) == 2
    with closing(Store(tmp_path / FILE, read_only=True)) as reader:
        reader.write_record(tmp_path / "small.sqlite")
    store.close()
    assert beside(tmp_path / FILE) == [FILE, "small.sqlite"]


def test_the_first_to_finish_leaves_the_other_at_work(tmp_path: Path) -> None:
    one, other = fill(tmp_path / FILE), Store(tmp_path / FILE)
    assert other.has_decisions(1, ["a"])
    assert not other.has_decisions(1, ["a", "b"])
    one.close()
    other.add_measure(1, "flops", 3)
    other.close()
    assert beside(tmp_path / FILE) == [FILE]
    with closing(Store(tmp_path / FILE, read_only=True)) as store:
        assert store.measures(1) == {"flops": 3}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that another user may look into, as pytest's own may not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kill", [True, False])
def test_a_folder_that_cannot_be_written_to_is_read(kill: bool, open_folder: Path) -> None:
    store = fill(open_folder / FILE)
    path = killed(open_folder / FILE, open_folder / "killed") if kill else open_folder / FILE
    if not kill:
        store.base.close()
    before = beside(path)
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            os._exit(0 if seen(path) == 1 and not os.access(path.parent, os.W_OK) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert beside(path) == before
    store.close()


def old(path: Path, wal_only: bool) -> sqlite3.Connection:
    """As the first version began a record: in WAL mode, without a mark."""
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("pragma journal_mode = wal")
    for statement in FIRST.split(";"):
        base.execute(statement)
    if not wal_only:
        base.execute("pragma wal_checkpoint(truncate)")
    return base


@pytest.mark.parametrize("wal_only", [True, False])
def test_records_of_the_first_version_are_known_by_their_tables(wal_only: bool, tmp_path: Path) -> None:
    base = old(tmp_path / FILE, wal_only)
    path = killed(tmp_path / FILE, tmp_path / "killed")
    base.close()
    assert read_header(path) == (True, 0, 0)
    with pytest.raises(RecordError, match=r"results\.sqlite has no results yet; create them with `bigain run"):
        read_report(path)
    fill(path).close()
    assert read_header(path) == (False, VERSION, APPLICATION)
    assert seen(path) == 1


def test_another_programs_file_is_untouched_while_it_is_open(tmp_path: Path) -> None:
    """Its tables are not even in the file yet."""
    theirs = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    theirs.execute("pragma journal_mode = wal")
    theirs.execute("create table notes (text)")
    before = {place.name: place.read_bytes() for place in tmp_path.iterdir()}
    assert b"notes" not in before[FILE]
    for read_only in (True, False):
        with pytest.raises(RecordError, match="its tables: notes"):
            Store(tmp_path / FILE, read_only)
    assert {place.name: place.read_bytes() for place in tmp_path.iterdir()} == before
    theirs.close()


def test_a_small_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = fill(tmp_path / FILE)
    with pytest.raises(OSError, match="too long"):
        store.write_record(tmp_path / f"{'a' * 245}.sqlite")
    store.base.execute("update decisions set truth = 'x'")
    with pytest.raises(RecordError, match="malformed JSON"):
        store.write_record(tmp_path / "small.sqlite")
    store.close()
    assert beside(tmp_path / FILE) == [FILE]


def test_a_full_disk_names_the_file_and_what_is_kept(tmp_path: Path) -> None:
    store = fill(tmp_path / FILE)
    (pages,) = store.base.execute("pragma page_count").fetchone()
    store.base.execute(f"pragma max_page_count = {pages}")
    text = r"cannot write .*results\.sqlite: database or disk is full; results so far are kept; run the same command"
    with pytest.raises(sqlite3.OperationalError, match=text):
        store.add_measure(1, "large", "x" * 100_000)
    assert store.measures(1) == {}
    store.close()


def test_nothing_is_a_record_that_is_not_there(tmp_path: Path) -> None:
    assert not recognise(tmp_path / FILE)
    assert not recognise(tmp_path / "no" / FILE)
    with pytest.raises(OSError, match=r"cannot write .*no/results\.sqlite: unable to open"):
        Store(tmp_path / "no" / FILE)

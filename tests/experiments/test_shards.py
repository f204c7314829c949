"""Shares of an experiment, each in a record of its own, and how they are joined."""

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bigain.experiments.chunks import Shard, all_chunks
from bigain.experiments.evaluator import Evaluator
from bigain.experiments.folder import FILE
from bigain.experiments.merge import merge
from bigain.experiments.runner import Run, run_chunks
from bigain.experiments.shards import parse_shard
from bigain.experiments.store import Store
from bigain.loading import load
from helpers.runs import contents, experiment, results, save_tiny, started


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


def finished(run: Run, measured: bool = False) -> dict[str, Any]:
    with closing(run.results):
        run_chunks(run)
        for setting in run.experiment.settings if measured else ():
            Evaluator(run).evaluate(setting)
        return results(run)


@pytest.fixture(scope="module")
def whole(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return finished(started(model, tmp_path_factory.mktemp("whole")), measured=True)


@pytest.fixture(scope="module")
def shares(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("shares")
    found = []
    for part in (1, 2, 3):
        found.append(folder / str(part))
        finished(Run.start(experiment(model), found[-1], load(model), Shard(part, 3)))
    return found


@pytest.fixture
def copies(shares: list[Path], tmp_path: Path) -> list[Path]:
    return [shutil.copytree(share, tmp_path / "copies" / share.name) for share in shares]


@pytest.mark.parametrize("parts", [1, 3, 7, 40])
def test_shares_are_all_chunks_once_and_even(model: Path, parts: int) -> None:
    whole = experiment(model, n=300)
    every = all_chunks(whole)
    own = [all_chunks(whole, Shard(part, parts)) for part in range(1, parts + 1)]
    assert sorted((chunk.number, chunk) for share in own for chunk in share) == [(c.number, c) for c in every]
    sizes = [len(share) for share in own]
    assert max(sizes) - min(sizes) <= 2 * len(whole.settings)
    for setting in whole.settings:
        counts = [sum(c.setting == setting and c.task == "classify" for c in share) for share in own]
        assert max(counts) - min(counts) <= 1


def test_more_images_leave_shares_as_they_were(model: Path) -> None:
    few, many = (
        {(c.task, c.setting.label, c.first) for c in all_chunks(experiment(model, n=n), Shard(2, 3))} for n in (64, 300)
    )
    assert few < many


ARRAY = {"ID": "5", "COUNT": "8", "MIN": "1", "MAX": "8"}
SLURM = {f"SLURM_ARRAY_TASK_{name}": value for name, value in ARRAY.items()}
FROM_ZERO = SLURM | {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "7"}
STEPS = SLURM | {"SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MAX": "9", "SLURM_ARRAY_TASK_STEP": "4"}
RANKS = {"RANK": "0", "WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("text", "environment", "shard"),
    [
        ("3/8", {}, Shard(3, 8)),
        (" 1/1 ", RANKS, Shard(1, 1)),
        ("auto", SLURM, Shard(5, 8)),
        ("auto", {key: SLURM[key] for key in list(SLURM)[:2]}, Shard(5, 8)),
        ("auto", FROM_ZERO, Shard(1, 8)),
        ("auto", STEPS, Shard(2, 3)),
        ("auto", RANKS, Shard(1, 4)),
    ],
)
def test_which_share(text: str, environment: dict[str, str], shard: Shard) -> None:
    assert parse_shard(text, environment) == shard


@pytest.mark.parametrize(
    ("text", "environment", "words"),
    [
        ("9/8", {}, "from 1/8 to 8/8, got '9/8'"),
        ("0/8", {}, "got '0/8'"),
        ("3", {}, "got '3'"),
        ("auto", {}, "finds neither; write the share itself, such as --shard 3/8"),
        ("auto", SLURM | RANKS, "finds both SLURM_ARRAY_TASK_ID and RANK"),
        ("auto", RANKS | {"RANK": "4"}, "RANK must be from 0 to 3"),
        ("auto", RANKS | {"RANK": "x"}, "RANK must be a whole number, got 'x'"),
        ("auto", SLURM | {"SLURM_ARRAY_TASK_COUNT": "2"}, "without gaps, got 2 tasks from 1 to 8; to run some shares"),
    ],
)
def test_no_share(text: str, environment: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_shard(text, environment)


@pytest.mark.slow
def test_shares_are_the_whole(model: Path, shares: list[Path], whole: dict[str, Any], tmp_path: Path) -> None:
    merged = merge(shares, tmp_path / "all")
    assert (merged.records, merged.decisions, merged.images) == (3, 77, 90)
    assert not merged.gaps
    assert finished(started(model, tmp_path / "all"), measured=True) == whole


@pytest.mark.slow
def test_what_is_missing_is_said_and_added_later(
    model: Path, shares: list[Path], whole: dict[str, Any], tmp_path: Path
) -> None:
    """A share that was not run, and one that stopped in the middle."""
    begun = Run.start(experiment(model), tmp_path / "begun", load(model), Shard(2, 3))
    begun.work(begun.chunks()[0])
    begun.store.log_session("then", begun.facts())
    begun.results.close()
    merged = merge([shares[0], tmp_path / "begun"], tmp_path / "all")
    assert merged.shares == ["2/3 (unfinished)", "3/3"]
    assert sum(gap.lacking for gap in merged.gaps) == 77 + 90 - merged.decisions - merged.images
    assert ("own", "classify", 1, 17) in merged.gaps
    later = merge(shares[1:], tmp_path / "all")
    assert not later.gaps
    assert finished(started(model, tmp_path / "all"), measured=True) == whole
    again = merge(shares, tmp_path / "all")
    with closing(Store(again.folder / FILE, read_only=True)) as store:
        assert len(store.sessions()) == 5  # three shares, the begun one, and the one that measured
        assert store.measures(1)  # nothing came, so they stand


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("update meta set value = json_set(value, '$.seed', 7) where key = 'experiment'", r'(.*\n)*\+ "seed": 7'),
        ("update meta set value = json_set(value, '$.hash', 'x') where key = 'data'", "differ in data"),
        ("update meta set value = '[]' where key = 'setting own'", "differ in setting own"),
        ("update hashes set hash = 'x' where kind = 'image' and name like '%7'", r"different images .*: test-\d+"),
        ("update hashes set hash = 'x' where kind = 'weights' and name = 'network.conv_in'", "network.conv_in"),
        ("insert into hashes values ('source', 'mine.py', 'x')", "different code and cannot be merged: mine.py"),
        ("update sessions set facts = json_set(facts, '$.dtype', 'float16')", "dtype float32, .* with float16"),
        ("update sessions set facts = json_set(facts, '$.torch', '1.0')", "with torch .* again with the same torch"),
        ("update decisions set errors = null", "is a small copy"),
        ("delete from meta", "has no results yet"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together(statement: str, words: str, copies: list[Path], tmp_path: Path) -> None:
    with closing(Store(copies[1] / FILE)) as store:
        store.base.execute(statement)
    with pytest.raises(ValueError, match=words):
        merge(copies, tmp_path / "all")
    assert not (tmp_path / "all").exists()


@pytest.mark.slow
def test_results_that_contradict_each_other(copies: list[Path], tmp_path: Path) -> None:
    shutil.copytree(copies[0], tmp_path / "other")
    with closing(Store(tmp_path / "other" / FILE)) as store:
        store.base.execute("update decisions set predicted = 9 - predicted")
    with pytest.raises(ValueError, match=r"different results for image test-.* of none; leave out one"):
        merge([*copies, tmp_path / "other"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


@pytest.mark.slow
def test_images_must_be_beside_the_record(copies: list[Path], tmp_path: Path) -> None:
    picture = next((copies[2] / "images").rglob("*.png"))
    os.remove(picture)
    with pytest.raises(FileNotFoundError, match=f"{picture.name}, an image of .*copy the whole run folder"):
        merge(copies, tmp_path / "all")


def test_small_copies_do_not_have_the_plan(model: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path / "run", tasks=["classify"], rows=contents(model)["rows"][:1])
    assert run.store.plan()["settings"] == [["none", {"classify": 20}]]
    assert len(run.store.plan()["images"]) == 20
    run.store.write_record(tmp_path / "small.sqlite")
    run.results.close()
    with closing(Store(tmp_path / "small.sqlite", read_only=True)) as small:
        assert small.plan() == {}

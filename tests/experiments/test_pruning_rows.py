"""Rows of experiments with a pruned model."""

from pathlib import Path
from typing import Any

import pytest

from bigain.experiments.evaluator import Evaluator
from bigain.experiments.experiment import build_experiment
from bigain.experiments.report import Row, read_report
from bigain.experiments.runner import Run, run_chunks
from bigain.loading import load
from helpers.pruning import scores_of
from helpers.runs import contents, results, save_tiny, started

pytestmark = pytest.mark.slow

CHANGES: dict[str, Any] = {
    "rows": [
        {"name": "none", "operator": "none"},
        {"name": "mosaic", "prune": "mosaic(sparsity={sparsity})", "sparsity": [0.3]},
        {
            "name": "and merged",
            "prune": "mosaic(sparsity=0.3)",
            "operator": "gated_merge(ratio=0.5)",
            "tasks": ["generate"],
        },
    ],
    "calibration": {"data": "fashion-sample", "n": 12},
    "n": 4,
    "policy": "exhaustive(2)",
    "generate": {"count": 4, "num_inference_steps": 2},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


def finished(model: Path, place: Path) -> Run:
    run = started(model, place, **CHANGES)
    run_chunks(run)
    evaluator = Evaluator(run)
    for setting in run.experiment.settings:
        evaluator.evaluate(setting)
    return run


@pytest.fixture(scope="module")
def rows(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    place = tmp_path_factory.mktemp("run")
    finished(model, place).store.close()
    return {row.label: row for row in read_report(place).rows}


def test_what_is_pruned_is_saved(rows: dict[str, Row]) -> None:
    dense, pruned, merged = (rows[name] for name in ("none", "mosaic, sparsity 0.3", "and merged"))
    assert dense.flops > pruned.flops > merged.flops
    assert dense.change is None
    assert pruned.change is not None
    # the two trials, at t = 250 and 750, are in different stages, and neither is the mean over timesteps
    assert 0 < pruned.decision_saved != pruned.saved
    assert pruned.samples.ssim.value < 1


def test_the_same_file_gives_the_same_bits(model: Path, rows: dict[str, Row], tmp_path: Path) -> None:
    found = []
    for name in "ab":
        run = started(model, tmp_path / name, **(CHANGES | {"rows": CHANGES["rows"][1:2], "tasks": ["classify"]}))
        run_chunks(run)
        found.append(results(run)["decisions"])
        run.store.close()
    assert found[0] == found[1] != []


def test_other_calibration_images_are_another_experiment(model: Path, tmp_path: Path) -> None:
    started(model, tmp_path, **CHANGES).store.close()
    with pytest.raises(ValueError, match="has results of another experiment"):
        started(model, tmp_path, **(CHANGES | {"calibration": {"data": "fashion-sample", "n": 13}}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"calibration": "fashion-sample"}, r"calibration must be a table, \[calibration\] with data and n"),
        ({"calibration": {"data": "fashion-sample", "m": 3}}, r"unknown \[calibration\] key 'm'. Available: data, n"),
        ({"calibration": {"data": "fashion-sample", "n": 0}}, r"n of \[calibration\] must be an int of at least 1"),
        ({"rows": [{"prune": "mozaic(0.3)"}]}, "unknown pruning method 'mozaic'. Did you mean 'mosaic'"),
        ({"rows": [{"prune": 0.3}]}, "prune must be a string"),
    ],
)
def test_mistakes_in_words(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        build_experiment(contents(tmp_path, **(CHANGES | changes)))


def test_skipped_blocks_classify_in_order(model: Path, tmp_path: Path) -> None:
    """Gates of a file need no calibration images; their file is part of the experiment."""
    network = load(model).network
    scores_of(network, (900.0, 500.0, 100.0)).save(tmp_path / "gates.json")
    method = f"dipgo(target={{target}}, scores={str(tmp_path / 'gates.json')!r})"
    changes = CHANGES | {
        "rows": [{"name": "dipgo", "prune": method, "target": [0, 0.3]}],
        "tasks": ["classify"],
        "n": 2,
    }
    del changes["calibration"]
    run = started(model, tmp_path / "run", **changes)
    run_chunks(run)
    none, some = run.experiment.settings
    evaluator = Evaluator(run)
    costs = [evaluator.decision_flops(setting) for setting in (none, some)]
    (first, *_) = run.store.decisions(run.ids[some.label]).values()
    assert first.timesteps == tuple(range(975, 0, -50))
    assert costs[1] < costs[0]
    run.store.close()
    scores_of(network, (900.0, 500.0, 100.0), seed=1).save(tmp_path / "gates.json")
    with pytest.raises(ValueError, match="has results from other"):
        started(model, tmp_path / "run", **changes)


def test_pruning_needs_calibration_images(tmp_path: Path) -> None:
    found = contents(tmp_path, **CHANGES)
    del found["calibration"]
    with pytest.raises(ValueError, match=r"a row with prune needs a table \[calibration\]"):
        build_experiment(found)

"""Rows with a correction, a policy or a number of steps of their own, and what a decision costs."""

from pathlib import Path
from typing import Any

import pytest

from bigain.experiments.evaluator import Evaluator
from bigain.experiments.experiment import build_experiment
from bigain.experiments.report import Row, read_report
from bigain.experiments.runner import run_chunks
from helpers.runs import contents, save_tiny, started

pytestmark = pytest.mark.slow

MERGE = {"operator": "gated_merge(ratio=0.6)", "groups": "input"}
ROWS: list[dict[str, Any]] = [
    {"name": "none", "operator": "none"},
    {"name": "shared", **MERGE},
    {"name": "corrected", **MERGE, "correct": True},
    {"name": "fewer trials", "operator": "none", "policy": "stages(trials=(1, {last}), keep=(2, 1))", "last": [2]},
    {"name": "fewer steps", "operator": "none", "num_inference_steps": 2},
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    place = tmp_path_factory.mktemp("run")
    generate = {"count": 4, "num_inference_steps": 3}
    run = started(save_tiny(tmp_path_factory.mktemp("model")), place, rows=ROWS, n=6, generate=generate)
    run_chunks(run)
    evaluator = Evaluator(run)
    for setting in run.experiment.settings:
        evaluator.evaluate(setting)
    run.store.close()
    return {row.name: row for row in read_report(place).rows}


def test_the_uncompressed_model_is_the_row_without_anything_of_its_own(rows: dict[str, Row]) -> None:
    assert rows["none"].change is None
    assert all(rows[name].change is not None for name in ("shared", "corrected", "fewer trials", "fewer steps"))
    assert rows["fewer steps"].agreement.value == 1  # it classifies as the uncompressed one does


def test_policies_and_steps_of_a_row(rows: dict[str, Row]) -> None:
    assert rows["none"].evaluations == 10 + 3
    assert rows["fewer trials"].evaluations == 10 + 2
    assert rows["fewer steps"].samples.ssim.value < 1


def test_what_a_decision_costs(rows: dict[str, Row]) -> None:
    dense = rows["none"]
    assert dense.decision_flops == dense.flops * dense.evaluations
    assert rows["fewer trials"].decision_saved == pytest.approx(1 / 13)
    assert 0 < rows["corrected"].decision_saved < rows["shared"].decision_saved


def test_a_correction_brings_class_differences_nearer(rows: dict[str, Row]) -> None:
    assert 0 < rows["corrected"].difference_error < rows["shared"].difference_error
    assert rows["fewer steps"].difference_error == 0


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"operator": "none", "policy": 5}, "policy must be a string, got 5"),
        ({"operator": "none", "policy": "rase"}, "unknown policy 'rase'. Did you mean 'race'"),
        ({"operator": "none", "num_inference_steps": 0}, "num_inference_steps must be an int of at least 1, got 0"),
        ({"operator": "todo(2)", "correct": True}, "correct=True needs groups of two rows or more"),
        ({**MERGE, "correct": 1}, "correct must be True or False, got 1"),
    ],
)
def test_mistakes_in_a_row(row: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        build_experiment(contents(tmp_path, rows=[row]))

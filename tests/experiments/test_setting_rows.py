"""Rows with a setting, a preset or a window of timesteps: what they attach, and what they cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from bigain import Compression, Setting
from bigain.bench.flops import count_flops, group_flops
from bigain.compression.document import model_shape
from bigain.experiments.evaluator import Evaluator
from bigain.experiments.experiment import build_experiment
from bigain.experiments.report import Row, read_report
from bigain.experiments.runner import run_chunks
from bigain.loading import load_denoiser
from bigain.models.architectures import meta_copy
from helpers.models import BACKBONES
from helpers.runs import contents, save_tiny, started

pytestmark = pytest.mark.slow

MERGE, POOL = "gated_merge(ratio=0.6)", "kv_downsample(factor=2)"
PARTS = (Compression(MERGE, when=(500, 999)), Compression(POOL, when=(0, 499)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, with settings beside it."""
    place = save_tiny(tmp_path_factory.mktemp("model"))
    shape = model_shape(load_denoiser(place).network)
    Setting(PARTS, shape).save(place / "tuned-30.json")
    Setting(PARTS, model_shape(BACKBONES["dit"].build())).save(place / "other.json")
    return place


def build(model: Path, *rows: dict[str, Any]) -> Any:
    return build_experiment(contents(model, rows=[{"operator": "none"}, *rows]), model)


def test_a_row_takes_a_setting_a_preset_or_a_window(model: Path) -> None:
    found = build(
        model,
        {"name": "tuned", "operator": "tuned-{save}.json", "save": [30]},
        {"operator": "fast"},
        {"operator": MERGE, "when": [500, 999]},
    ).settings
    assert [setting.label for setting in found] == ["none", "tuned, save 30", "fast", MERGE]
    assert found[1].attach == PARTS
    assert found[2].attach == (Compression("gated_merge(ratio=0.7)", groups="classes", correct=True),)
    assert found[3].attach == PARTS[:1]
    assert json.loads(json.dumps(found[1].identity()))[0]["when"] == [500, 999]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"operator": "tuned-30.json", "where": "index=0"}, "where is part of the setting 'tuned-30.json'"),
        ({"operator": "fast", "correct": True}, "correct is part of the setting 'fast'"),
        ({"operator": "tuned-40.json"}, "no setting .*tuned-40.json"),
        ({"operator": MERGE, "when": [999, 500]}, "did you mean"),
    ],
)
def test_mistakes_are_found_at_once(model: Path, row: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=text):
        build(model, row)


@pytest.fixture(scope="module")
def rows(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    place = tmp_path_factory.mktemp("run")
    wanted = [{"operator": "none"}, {"name": "tuned", "operator": str(model / "tuned-30.json")}]
    run = started(model, place, rows=wanted, n=2, generate={"count": 4, "num_inference_steps": 4})
    run_chunks(run)
    evaluator = Evaluator(run)
    for setting in run.experiment.settings:
        evaluator.evaluate(setting)
    run.store.close()
    return {row.name: row for row in read_report(place).rows}


def test_costs_are_means_over_the_timesteps_that_ran(model: Path, rows: dict[str, Row]) -> None:
    denoiser = load_denoiser(model)
    network = meta_copy(denoiser.network)
    size: Any = {"latent": denoiser.latent_shape[1:], "text_tokens": denoiser.text_tokens}
    merged, pooled = (count_flops(network, Compression(text), **size) for text in (MERGE, POOL))
    # DDIM with 4 steps: t = 751, 501, 251, 1
    assert rows["tuned"].flops == round((merged + pooled) / 2)
    assert rows["none"].flops == count_flops(network, **size)
    spent = sum(group_flops(network, [Compression(text)], 1, **size) for text in (MERGE, POOL))
    assert rows["tuned"].decision_flops is not None
    assert rows["tuned"].evaluations is not None
    assert 0.9 < rows["tuned"].decision_flops / (rows["tuned"].evaluations * spent / 2) < 1.1


def test_a_setting_of_another_model_is_refused_before_anything_runs(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it was made for DiTTransformer2DModel, and this is UNet2DConditionModel"):
        started(model, tmp_path / "run", rows=[{"name": "x", "operator": str(model / "other.json")}])
    assert not (tmp_path / "run").exists()

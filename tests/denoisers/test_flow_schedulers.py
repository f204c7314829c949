"""Schedulers for the velocities of flow matching: by name, shifted as the pipelines do, and those that do not fit."""

import math
from typing import Any

import diffusers
import pytest
import torch
from diffusers.pipelines.flux.pipeline_flux import calculate_shift
from torch import Tensor

from bigain.denoisers.base import Condition
from bigain.denoisers.flow import dynamic_shift
from bigain.denoisers.pipelines import from_pipeline
from bigain.denoisers.sampling import FLOW, make_scheduler
from bigain.denoisers.schedule import Schedule
from bigain.generation import Sampling, generate
from helpers.models import noise
from helpers.pipeline_parts import flow_dpm
from helpers.pipelines import BUILDERS, FLUX_SHIFT, QWEN_SHIFT
from helpers.sampling import sample
from helpers.toys import PointDenoiser, points

# diffusers' schedulers give numpy 2 tensors
pytestmark = pytest.mark.filterwarnings("ignore:__array_:DeprecationWarning")

PROMPTS = ["a cat", "the quick fox"]
DYNAMIC = diffusers.FlowMatchEulerDiscreteScheduler(**FLUX_SHIFT)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    torch.manual_seed(0)
    return {name: from_pipeline(BUILDERS[name](tmp_path_factory.mktemp(name))) for name in ("sd3", "qwen-image")}


def test_the_dynamic_shift_is_that_of_the_pipelines() -> None:
    for tokens in (64, 256, 1024, 4096):
        assert dynamic_shift(DYNAMIC.config, tokens) == pytest.approx(calculate_shift(tokens))
        assert dynamic_shift({}, tokens) == pytest.approx(calculate_shift(tokens))
        expected = calculate_shift(tokens, 256, 8192, 0.5, 0.9)
        assert dynamic_shift(QWEN_SHIFT, tokens) == pytest.approx(expected)


def test_levels_that_end_early_need_two_steps(made: dict[str, Any]) -> None:
    text = "num_inference_steps must be at least 2 for this QwenImagePipeline, got 1: its scheduler stretches"
    with pytest.raises(ValueError, match=text):
        generate(made["qwen-image"], PROMPTS, Sampling(1))
    assert generate(made["qwen-image"], PROMPTS, Sampling(1, scheduler="flow-heun")).isfinite().all()


def test_flow_schedulers_by_name() -> None:
    plain = Schedule("flow", prediction_type="flow")
    for name, class_name in FLOW.items():
        assert type(make_scheduler(name, plain)).__name__ == class_name
    config = make_scheduler("dpm++", plain).config
    assert (config.prediction_type, config.use_flow_sigmas, config.flow_shift) == ("flow_prediction", True, 1.0)
    dynamic = Schedule.from_config({**DYNAMIC.config, "_class_name": "FlowMatchEulerDiscreteScheduler"})
    assert make_scheduler("flow-euler", dynamic, 0.7).config.use_dynamic_shifting
    assert make_scheduler("flow-heun", dynamic, 0.7).config.shift == pytest.approx(math.exp(0.7))
    assert make_scheduler("dpm++", dynamic, 0.7).config.flow_shift == pytest.approx(math.exp(0.7))
    linear = Schedule.from_config({**DYNAMIC.config, "_class_name": "FlowMatch", "time_shift_type": "linear"})
    assert make_scheduler("flow-heun", linear, 0.7).config.shift == pytest.approx(0.7)
    solver = Schedule.from_config({**flow_dpm(flow_shift=5.0).config, "_class_name": "DPMSolverMultistepScheduler"})
    assert solver == plain
    assert make_scheduler("flow-euler", solver).config.shift == 5.0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ddim", "unknown scheduler for flow models 'ddim'. Available: flow-euler, flow-heun, dpm\\+\\+$"),
        ("euler", "unknown scheduler for flow models 'euler'. Did you mean 'flow-euler'"),
        ("EulerDiscreteScheduler", "unknown scheduler for flow models 'EulerDiscreteScheduler'"),
    ],
)
def test_schedulers_that_do_not_fit(name: str, text: str, made: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=text):
        generate(made["sd3"], PROMPTS, Sampling(1, scheduler=name))


class Certain(PointDenoiser):
    """Predicts the velocity of the point mass itself."""

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return (noisy - condition.values["points"]) / (t / 1000).view(-1, 1, 1, 1)


@pytest.mark.parametrize("name", FLOW)
def test_every_flow_scheduler_reaches_the_image(name: str) -> None:
    denoiser = Certain(points(2), Schedule("flow", prediction_type="flow"))
    found = sample(denoiser, noise(2, 1, 4, 4, seed=0), denoiser.conditions([0, 1]), Sampling(20, 1.0, name))
    assert (found - denoiser.points).abs().max() < 0.1

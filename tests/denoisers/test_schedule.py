import pytest
import torch
from diffusers import DDPMScheduler

from bigain.denoisers.schedule import Schedule

KINDS = [("linear", 1e-4, 0.02), ("scaled_linear", 0.00085, 0.012), ("squaredcos_cap_v2", 1e-4, 0.02)]


@pytest.mark.parametrize(("name", "start", "end"), KINDS)
def test_levels_are_those_of_diffusers(name: str, start: float, end: float) -> None:
    signal, spread = Schedule(name, start, end).levels()
    theirs = DDPMScheduler(beta_schedule=name, beta_start=start, beta_end=end).alphas_cumprod
    torch.testing.assert_close(signal**2, theirs, rtol=2e-4, atol=1e-6)
    torch.testing.assert_close(spread**2, 1 - theirs, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample", "flow"])
def test_every_parametrisation_gives_the_noise_back(prediction: str) -> None:
    schedule = Schedule("flow" if prediction == "flow" else "linear", prediction_type=prediction)
    generator = torch.Generator().manual_seed(0)
    x, noise = torch.randn(2, 6, 4, 8, 8, generator=generator)
    t = torch.tensor([1, 10, 250, 500, 900, 999])
    noisy = schedule.add_noise(x, noise, t)
    signal, spread = (level[t].view(-1, 1, 1, 1) for level in schedule.levels())
    output = {"epsilon": noise, "v_prediction": signal * noise - spread * x, "sample": x, "flow": noise - x}[prediction]
    torch.testing.assert_close(schedule.noise_from(output, noisy, t), noise, rtol=1e-3, atol=1e-3)


def test_from_scheduler_configurations() -> None:
    config = DDPMScheduler(
        beta_schedule="scaled_linear", beta_start=0.1, beta_end=0.2, prediction_type="v_prediction"
    ).config
    assert Schedule.from_config(config) == Schedule("scaled_linear", 0.1, 0.2, "v_prediction")
    flow = Schedule("flow", prediction_type="flow", num_train_timesteps=500)
    for config in (
        {"_class_name": "FlowMatchEulerDiscreteScheduler"},
        {"_class_name": "DPMSolverMultistepScheduler", "prediction_type": "flow_prediction"},
    ):
        assert Schedule.from_config({**config, "num_train_timesteps": 500}) == flow


def test_targets_of_training() -> None:
    latents, noise = torch.randn(2, 3, 4, 8, 8)
    assert Schedule().target(latents, noise) is noise
    assert torch.equal(Schedule("flow", prediction_type="flow").target(latents, noise), noise - latents)
    with pytest.raises(ValueError, match="training needs prediction_type epsilon or flow, got 'sample'"):
        Schedule(prediction_type="sample").target(latents, noise)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"beta_schedule": "lineal"}, "Did you mean 'linear'"),
        ({"prediction_type": "eps"}, "Available: epsilon"),
        ({"prediction_type": "flow"}, "must both be"),
    ],
)
def test_bad_schedules(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Schedule(**options)


def test_schedules_without_betas_are_refused() -> None:
    with pytest.raises(ValueError, match="trained_betas"):
        Schedule.from_config({"trained_betas": [0.1]})

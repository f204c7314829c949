"""What `bigain.generate` takes, and what it says of the rest."""

from pathlib import Path

import pytest
import torch

import bigain
from bigain.denoisers.schedule import Schedule
from bigain.generation import watch
from helpers import pipelines
from helpers.denoisers import CLASSES, tiny

FAST = bigain.Sampling(1, seed=3)


@pytest.fixture(scope="module")
def denoiser():
    return tiny("dit")


def test_classes_in_any_collection(denoiser):
    expected = bigain.generate(denoiser, ["a", "b"], FAST)
    for classes in (("a", "b"), (name for name in "ab"), [0, 1]):
        assert torch.equal(bigain.generate(denoiser, classes, FAST), expected)


def test_a_pipeline_stands_for_its_denoiser(tmp_path: Path):
    pipe = pipelines.sd(tmp_path)
    images = bigain.generate(pipe, ["a cat"], bigain.Sampling(1, scheduler="ddim"))
    assert images.shape[:2] == (1, 3)
    assert images.isfinite().all()


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            {"classes": "bag"},
            TypeError,
            r"must be a list with one element per image, got 'bag'; use \['bag'\]",
        ),
        ({"classes": 3}, TypeError, r"got 3; use \[3\]"),
        ({"classes": []}, ValueError, "classes must have at least one element, got an empty list"),
        ({"classes": ["z"]}, ValueError, "unknown class 'z'"),
        ({"classes": ["a"], "batch_size": 0}, ValueError, "batch_size must be an int of at least 1, got 0"),
        ({"classes": ["a"], "batch_size": 1.5}, ValueError, "batch_size must be an int of at least 1, got 1.5"),
        ({"classes": ["a"], "denoiser": "fashion-unet"}, TypeError, r"call bigain.load\('fashion-unet'\) first"),
        ({"classes": ["a"], "denoiser": torch.nn.Linear(1, 1)}, TypeError, "must come from bigain.load"),
    ],
    ids=["text", "number", "empty", "unknown", "zero", "fraction", "name", "network"],
)
def test_what_is_refused(denoiser, given, error, text):
    with pytest.raises(error, match=text):
        bigain.generate(**{"denoiser": denoiser, "sampling": FAST} | given)


def test_every_class_has_its_image(denoiser):
    assert len(bigain.generate(denoiser, CLASSES, FAST, batch_size=4)) == len(CLASSES)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # diffusers and numpy
@pytest.mark.parametrize("scheduler", ["ddim", "euler", "HeunDiscreteScheduler"])  # heun has more steps
def test_the_last_step_that_is_watched_has_the_images(denoiser, scheduler):
    sampling = bigain.Sampling(3, scheduler=scheduler, seed=2)
    expected = bigain.generate(denoiser, ["a", "b"], sampling, first=4)
    steps = list(watch(denoiser, ["a", "b"], sampling, first=4))
    assert torch.equal(steps[-1].images, expected)
    assert [step.number for step in steps] == list(range(1, steps[0].steps + 1))
    assert not torch.equal(steps[0].images, expected)


@pytest.mark.parametrize("beta_schedule", ["linear", "flow"])
def test_the_clean_image_is_what_the_noise_was_added_to(beta_schedule):
    schedule = Schedule(beta_schedule, prediction_type="flow" if beta_schedule == "flow" else "epsilon")
    image, noise = torch.randn(2, 3, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    t = torch.tensor([1, 500, 900])
    noisy = schedule.add_noise(image, noise, t)
    found = schedule.clean_from(schedule.target(image, noise), noisy, t)
    torch.testing.assert_close(found, image.float(), atol=1e-4, rtol=1e-4)

"""The bundled kind of model with joint attention, trained by rectified flow."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import bigain
from bigain.denoisers.base import ImageSpec
from bigain.denoisers.labelled import LabelledDenoiser, LabelledModel, build_labelled, save_labelled
from bigain.denoisers.sampling import FLOW
from bigain.denoisers.schedule import Schedule
from bigain.generation import Sampling, generate
from bigain.zoo.recipes import RECIPES
from bigain.zoo.train import denoising_loss, make_optimisers
from helpers.models import noise

# diffusers' schedulers give numpy 2 tensors
pytestmark = pytest.mark.filterwarnings("ignore:__array_:DeprecationWarning")

RECIPE = RECIPES["fashion-mmdit"]
SMALL = {"num_layers": 2, "num_attention_heads": 1, "caption_projection_dim": 16}
CLASSES = tuple("abcdef")
FLOWS = Schedule(**RECIPE.schedule)


def small() -> LabelledModel:
    torch.manual_seed(0)
    model = build_labelled("mmdit", RECIPE.architecture | SMALL, len(CLASSES), RECIPE.prompt_tokens)
    for parameter in model.parameters():  # a fresh one answers zero: its gates are closed
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model


@pytest.fixture(scope="module")
def denoiser() -> LabelledDenoiser:
    return LabelledDenoiser(small(), FLOWS, ImageSpec(28, 1, 2), CLASSES)


def test_it_learns_the_velocity() -> None:
    model = small()
    latents, eps = noise(2, 3, 4, 16, 16, seed=1)
    t, labels = torch.tensor([10, 500, 990]), torch.tensor([0, 3, len(CLASSES)])
    with torch.no_grad():
        loss = denoising_loss(model, FLOWS, latents, labels, t, eps)
        total = 0.0
        for row in range(3):
            level = int(t[row]) / 1000
            noisy = (1 - level) * latents[row] + level * eps[row]
            text = model.prompts[labels[row]][None]
            found = model.model(noisy[None], text, text.mean(1), t[row : row + 1]).sample[0]
            total += float(((found - (eps[row] - latents[row])) ** 2).mean()) / 3
    assert float(loss) == pytest.approx(total, rel=1e-5)


def test_its_error_is_that_of_the_noise(denoiser: LabelledDenoiser) -> None:
    latents, eps = noise(2, 1, 4, 16, 16, seed=2)
    t, condition = torch.tensor([300]), denoiser.conditions(["b"])
    noisy = 0.7 * latents + 0.3 * eps
    with torch.no_grad():
        output = denoiser.output(noisy, t, condition)
    expected = ((noisy + 0.7 * output - eps) ** 2).mean()
    assert float(denoiser.error(latents, condition, t, eps)) == pytest.approx(float(expected), rel=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(denoiser.prediction(noisy, t, condition), output)


def test_classification_whatever_the_batch(denoiser: LabelledDenoiser) -> None:
    images, found = noise(2, 1, 32, 32, seed=3).clamp(-1, 1), []
    for size in (1, 5, 64):
        classifier = bigain.DiffusionClassifier(denoiser, CLASSES, policy="exhaustive(3)", batch_size=size)
        found.append(np.stack([decision.errors for decision in classifier(images)]))
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    np.testing.assert_allclose(found[1], found[2], atol=1e-5)


@pytest.mark.parametrize("scheduler", [None, *FLOW])
def test_images_do_not_depend_on_their_batch(scheduler: str | None, denoiser: LabelledDenoiser) -> None:
    sampling = Sampling(3, 2.0, scheduler)
    together = generate(denoiser, ["a", "b", "c"], sampling)
    alone = torch.cat([generate(denoiser, [k], sampling, first=k) for k in range(3)])
    assert together.shape == (3, 1, 32, 32)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_the_usual_scheduler_steps_along_the_velocity(denoiser: LabelledDenoiser) -> None:
    """From noise to image in n equal steps, as rectified flow does, with guidance."""

    def velocity(noisy: Tensor, t: float, label: str | None) -> Tensor:
        condition = denoiser.unconditional(1) if label is None else denoiser.conditions([label])
        return denoiser.output(noisy, torch.tensor([t]), condition)

    noisy = torch.randn(1, 4, 16, 16, generator=bigain.generation.image_generator(0, 0))
    times = torch.linspace(1000, 1, 4).tolist()
    with torch.no_grad():
        for t, after in zip(times, [*times[1:], 0.0], strict=True):
            empty = velocity(noisy, t, None)
            noisy = noisy + (after - t) / 1000 * (empty + 2 * (velocity(noisy, t, "b") - empty))
    torch.testing.assert_close(generate(denoiser, ["b"], Sampling(4, 2.0)), denoiser.decode(noisy), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_saved_model(dtype: torch.dtype, denoiser: LabelledDenoiser, tmp_path: Path) -> None:
    save_labelled(tmp_path, denoiser, "mmdit")
    loaded = bigain.load(tmp_path, dtype=dtype)
    assert (loaded.schedule, loaded.default_scheduler, loaded.dtype) == (FLOWS, "flow-euler", dtype)
    latents, eps = noise(2, 1, 4, 16, 16, seed=4)
    errors = [each.error(latents, each.conditions(["c"]), torch.tensor([500]), eps) for each in (loaded, denoiser)]
    torch.testing.assert_close(errors[0], errors[1], rtol=0.02, atol=0)


def test_outer_layers_are_not_for_muon() -> None:
    """Those between latents and tokens, as in the other families."""
    for name, outer in (("fashion-mmdit", ("pos_embed.proj", "proj_out")), ("fashion-unet", ("conv_in", "conv_out"))):
        recipe = replace(RECIPES[name], muon=6e-3)
        model = build_labelled(recipe.family, recipe.architecture, 2, recipe.prompt_tokens)
        adam, muon = make_optimisers(recipe, model)
        inside = [{id(p) for group in each.param_groups for p in group["params"]} for each in (adam, muon)]
        assert not inside[0] & inside[1]
        assert inside[0] | inside[1] == {id(p) for p in model.parameters()}
        for part in outer:
            layer = model.model.get_submodule(part)
            assert isinstance(layer, nn.Module)
            assert id(layer.weight) in inside[0]


def test_unknown_families() -> None:
    with pytest.raises(ValueError, match=r"unknown family .mmdi.\. Did you mean .mmdit.\? Available: dit, unet, mmdit"):
        build_labelled("mmdi", {}, 2)

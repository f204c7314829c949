"""What operators draw depends on the seed, the image, the trial or step, and the site: never on the batch."""

import numpy as np
import pytest
import torch

import bigain
from bigain.classify.policies import Exhaustive, Stages
from bigain.denoisers.labelled import LabelledDenoiser
from helpers.denoisers import CLASSES, tiny
from helpers.models import EXAMPLES

pytestmark = pytest.mark.slow

OPERATORS = [*EXAMPLES.values(), "tome(ratio=0.6, pattern='per_row')", "sito(ratio=0.6, noise=30.0)"]
# every operator on both kinds of models and with both kinds of plans; what draws, in all combinations
DRAWING = [operator for operator in OPERATORS if bigain.parse(operator).stochastic]
BATCHED = [
    *[("unet", operator, None) for operator in OPERATORS],
    *[("dit", operator, "input") for operator in OPERATORS],
    *[("unet", operator, "input") for operator in DRAWING],
    *[("dit", operator, None) for operator in DRAWING],
]
STEPS = (100, 400, 600, 900)


@pytest.fixture(scope="module", params=["unet", "dit"])
def denoiser(request: pytest.FixtureRequest) -> LabelledDenoiser:
    return tiny(request.param)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return 2 * torch.rand(3, 1, 32, 32, generator=torch.Generator().manual_seed(0)) - 1


@pytest.mark.parametrize(("denoiser", "operator", "groups"), BATCHED, indirect=["denoiser"])
def test_batch_size_order_and_sharding_change_nothing(
    denoiser: LabelledDenoiser, images: torch.Tensor, operator: str, groups: str | None
) -> None:
    with bigain.compress(denoiser, operator, groups=groups):
        expected = bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), batch_size=24)(images)
        for batch_size, order in ((4, [2, 0, 1]), (64, [1])):
            classifier = bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), batch_size=batch_size)
            for place, found in zip(order, classifier(images[order]), strict=True):
                np.testing.assert_allclose(found.errors, expected[place].errors, atol=1e-5)


def test_pruned_classes_change_nothing_for_the_others(denoiser: LabelledDenoiser, images: torch.Tensor) -> None:
    with bigain.compress(denoiser, "tome(ratio=0.6, pattern='per_row')"):
        every = bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(4), timesteps=STEPS)(images)
        staged = bigain.DiffusionClassifier(denoiser, CLASSES, Stages((2, 4), (3, 1)), timesteps=STEPS)(images)
    for found, expected in zip(staged, every, strict=True):
        tried = ~np.isnan(found.errors)
        np.testing.assert_allclose(found.errors[tried], expected.errors[tried], atol=1e-5)


@pytest.mark.parametrize("operator", ["tome(ratio=0.6)", "tome(ratio=0.6, pattern='per_row')", "sito(0.6, noise=30.0)"])
def test_draws_differ_between_trials_seeds_and_classes(
    denoiser: LabelledDenoiser, images: torch.Tensor, operator: str
) -> None:
    patterns: list[torch.Tensor] = []

    class Watched(type(bigain.parse(operator))):  # type: ignore[misc]
        def plan(self, x, call):  # type: ignore[no-untyped-def]
            plan = super().plan(torch.ones_like(x) + torch.arange(x.shape[1], device=x.device)[:, None], call)
            patterns.append(plan.group)
            return plan

    with bigain.compress(denoiser, operator, where="index=0") as handle:
        attachment = handle._attachment
        attachment.operator = Watched(**vars(attachment.operator))
        bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), batch_size=24)(images[:1])
        bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(1), batch_size=24, seed=1)(images[:1])
    first, second = patterns[0].chunk(2)
    assert not torch.equal(first, second)
    assert not torch.equal(first, patterns[1])
    alike = all(torch.equal(row, first[0]) for row in first)
    assert alike == ("row" not in operator)


@pytest.mark.parametrize("guidance", [1.0, 3.0])
@pytest.mark.parametrize("operator", ["tome(ratio=0.6)", "tome(ratio=0.6, pattern='per_row')", "sito(0.6, noise=30.0)"])
def test_generated_images_do_not_depend_on_batches_or_passes_before(
    denoiser: LabelledDenoiser, operator: str, guidance: float
) -> None:
    sampling = bigain.Sampling(3, guidance, seed=4)
    with bigain.compress(denoiser, operator):
        together = bigain.generate(denoiser, CLASSES[:4], sampling)
        apart = bigain.generate(denoiser, CLASSES[:4], sampling, batch_size=1)
        last = bigain.generate(denoiser, CLASSES[2:4], sampling, first=2)
        other = bigain.generate(denoiser, CLASSES[:4], bigain.Sampling(3, guidance, seed=5))
    torch.testing.assert_close(apart, together, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(last, together[2:], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(other, together, atol=1e-2)


def test_a_plain_pass_still_counts(denoiser: LabelledDenoiser) -> None:
    x = torch.randn(2, *denoiser.latent_shape, generator=torch.Generator().manual_seed(0))
    condition = denoiser.conditions(CLASSES[:2])
    with torch.no_grad(), bigain.compress(denoiser, "tome(ratio=0.6)") as handle:
        first, second = (denoiser.output(x, torch.tensor([10, 10]), condition) for _ in range(2))
        handle.reset()
        again = denoiser.output(x, torch.tensor([10, 10]), condition)
    assert not torch.equal(first, second)
    assert torch.equal(first, again)

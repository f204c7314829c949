"""Residuals: what is left of the noise for every class, whose mean squares are the classifier's errors."""

import numpy as np
import pytest
import torch

import bigain
from bigain.classify.policies import Exhaustive, Stages
from helpers.denoisers import CLASSES, tiny


@pytest.mark.parametrize("family", ["unet", "dit"])
def test_their_mean_squares_are_the_errors(family: str) -> None:
    denoiser, images = tiny(family), [np.full((28, 28), value, dtype=np.uint8) for value in (0, 90, 255)]
    classifier = bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(3), batch_size=8)
    with bigain.compress(denoiser, "gated_merge(ratio=0.5)", groups="input"):
        decisions = classifier(images)
        residuals = dict(classifier.residuals(images))
    assert list(residuals) == [0, 1, 2]
    for number, decision in enumerate(decisions):
        assert residuals[number].shape == (len(CLASSES), 3, *denoiser.latent_shape)
        errors = residuals[number].square().mean((2, 3, 4)).double().numpy()
        np.testing.assert_allclose(errors, decision.errors, rtol=1e-5)


def test_a_trial_that_does_not_fit_comes_in_parts() -> None:
    denoiser, image = tiny("unet"), np.zeros((28, 28), dtype=np.uint8)
    found = [
        next(bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), batch_size=size).residuals([image]))[1]
        for size in (4, 64)
    ]
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-4)


def test_of_stages_those_of_the_first() -> None:
    denoiser, image = tiny("unet"), np.zeros((28, 28), dtype=np.uint8)
    classifier = bigain.DiffusionClassifier(denoiser, CLASSES, Stages((2, 4), (3, 1)))
    ((_, found),) = classifier.residuals([image])
    assert found.shape[:2] == (len(CLASSES), 2)

"""A cascade: the first rounds on one denoiser, the last on another, which may share its weights."""

import numpy as np
import pytest
import torch

import bigain
from bigain.classify.policies import Cascade, parse_policy
from bigain.denoisers.base import share_weights
from helpers.denoisers import CLASSES, tiny
from helpers.toys import PointDenoiser, points


def test_the_last_rounds_are_computed_by_the_final_denoiser() -> None:
    found = points(6)
    first, last = PointDenoiser(found), PointDenoiser(found)
    policy = "cascade('stages(trials=(2, 6, 9), keep=(3, 2, 1))', survivors=3)"
    classifier = bigain.DiffusionClassifier(first, range(6), policy, final=last)
    decision = classifier(found[2:3])[0]
    assert decision.index == 2
    assert sum(first.batches) == 6 * 2
    assert sum(last.batches) == decision.evaluations - 6 * 2 > 0
    alone = bigain.DiffusionClassifier(PointDenoiser(found), range(6), "stages(trials=(2, 6, 9), keep=(3, 2, 1))")
    np.testing.assert_allclose(decision.errors, alone(found[2:3])[0].errors, rtol=1e-5)


def test_a_cascade_of_compression_is_dense_at_its_end() -> None:
    """Compressed at first: the trials of the finalists have the errors of the uncompressed model."""
    denoiser = tiny("dit")
    images = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    stages = "stages(trials=(2, 4), keep=(2, 1))"
    dense = bigain.DiffusionClassifier(denoiser, CLASSES, "exhaustive(4)")(images)
    first = share_weights(denoiser)
    with bigain.compress(first, "gated_merge(ratio=0.5)", groups="input", correct=True):
        cascade = bigain.DiffusionClassifier(first, CLASSES, f"cascade({stages!r}, survivors=2)", final=denoiser)
        decisions = cascade(images)
    order = [dense[0].timesteps.index(t) for t in decisions[0].timesteps]
    for decision, other in zip(decisions, dense, strict=True):
        tried = np.isfinite(decision.errors[:, -1])
        assert tried.sum() == 2
        np.testing.assert_allclose(decision.errors[tried, 2:], other.errors[:, order][tried, 2:], rtol=1e-4)
        assert not np.allclose(decision.errors[:, :2], other.errors[:, order][:, :2], rtol=1e-5)


def test_shared_weights_are_the_same_tensors() -> None:
    denoiser = tiny("unet")
    other = share_weights(denoiser)
    assert other.network is not denoiser.network
    pairs = zip(denoiser.network.parameters(), other.network.parameters(), strict=True)
    assert all(a is b for a, b in pairs)
    with bigain.compress(other, "todo(factor=2)"):
        assert not denoiser.network._forward_pre_hooks


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("cascade(survivors=1)", "survivors must be an int of at least 2, got 1"),
        ("cascade('cascade()')", "policy must not be a cascade itself"),
        ("cascade('rase')", "Did you mean 'race'"),
    ],
)
def test_bad_cascades(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_policy(text)
    assert parse_policy("cascade('race(0.5)', survivors=4)") == Cascade("race(0.5)", 4)

"""What others see while an image is classified."""

import itertools

import numpy as np
import pytest

from bigain.classify.classifier import DiffusionClassifier
from helpers.toys import PointDenoiser, points


@pytest.mark.parametrize("policy", ["stages(trials=(2, 5), keep=(3, 1))", "race(confidence=0.9)", "exhaustive(4)"])
@pytest.mark.parametrize("batch_size", [1, 64])
def test_the_last_standing_is_the_decision(policy: str, batch_size: int) -> None:
    found = points(6)
    image = (found[2] + 0.2 * found[3]).clamp(-1, 1)
    classifier = DiffusionClassifier(PointDenoiser(found), range(6), policy, batch_size=batch_size)
    (decision,) = classifier(image[None])
    seen = list(classifier.watch(image))
    last = seen[-1].decision
    assert (last.label, last.ranking, last.evaluations) == (decision.label, decision.ranking, decision.evaluations)
    np.testing.assert_array_equal(last.errors, decision.errors)
    assert [standing.done for standing in seen] == [False] * (len(seen) - 1) + [True]
    assert [standing.decision.errors.shape[1] for standing in seen] == list(range(1, len(seen) + 1))  # each trial
    for before, after in itertools.pairwise(seen):
        count = before.decision.errors.shape[1]
        np.testing.assert_array_equal(after.decision.errors[:, :count], before.decision.errors)
        assert not (after.alive & ~before.alive).any()  # nobody comes back
        tried = ~np.isnan(after.decision.errors[:, -1])
        assert (tried == before.alive).all()


def test_gaps_are_mean_differences_to_the_leader() -> None:
    found = points(5)
    classifier = DiffusionClassifier(PointDenoiser(found), range(5), "exhaustive(3)")
    for standing in classifier.watch(found[1]):
        errors = standing.decision.errors.mean(1)
        np.testing.assert_allclose(standing.gaps, errors - errors.min(), rtol=1e-9, atol=1e-12)
        assert standing.gaps[standing.decision.index] == 0

"""Probabilities from errors, in the order of the ranking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigain.classify.decision import distances, paired_margin, probabilities


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(1, 6))
def test_probabilities_fall_along_the_ranking(seed: int, classes: int, trials: int) -> None:
    rng = np.random.default_rng(seed)
    errors, order = rng.normal(size=(classes, trials)), rng.permutation(classes)
    for place, k in enumerate(order[1:], 1):  # later places were tried less often
        errors[k, max(1, trials - place) :] = np.nan
    weights, summed = rng.uniform(0.1, 3, size=trials), bool(seed % 2)
    chances = probabilities(distances(errors, weights, order, summed=summed), 3.0)
    assert abs(chances.sum() - 1) < 1e-9
    assert (np.diff(chances[order]) <= 1e-12).all()


def test_gaps_are_paired_differences_where_they_agree_with_the_ranking() -> None:
    errors = np.array([[1.0, 2.0], [1.5, np.nan], [1.2, 2.2]])
    equal, uneven = np.ones(2), np.array([1.0, 3.0])
    np.testing.assert_allclose(distances(errors, equal, (0, 2, 1), summed=False), [0.0, 0.5, 0.2])
    np.testing.assert_allclose(distances(errors, equal, (0, 1, 2), summed=False), [0.0, 0.5, 0.5])
    np.testing.assert_allclose(distances(errors, uneven, (0, 1, 2), summed=True), [0.0, 0.5, 0.8])


def test_a_margin_is_the_weighted_mean_with_its_error() -> None:
    errors = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 3.5]])
    mean, spread = paired_margin(errors, np.ones(3), 0, 1)
    assert mean == pytest.approx(3.5 / 3)
    assert spread == pytest.approx(np.std([1.0, 2.0, 0.5], ddof=1) / np.sqrt(3))
    assert paired_margin(errors, np.array([1.0, 0.5, 2.0]), 0, 1)[0] == pytest.approx((1 + 1 + 1) / 3.5)
    rng = np.random.default_rng(0)
    weights = np.array([1.0, 4.0, 2.0, 0.5] * 10)
    found = [paired_margin(np.stack([np.zeros(40), rng.normal(size=40)]), weights, 0, 1) for _ in range(3000)]
    assert np.mean([error**2 for _, error in found]) == pytest.approx(np.var([mean for mean, _ in found]), rel=0.1)

"""Probabilities from errors, in the order of the ranking."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bigain.classify.decision import distances, probabilities


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(1, 6))
def test_probabilities_fall_along_the_ranking(seed: int, classes: int, trials: int) -> None:
    rng = np.random.default_rng(seed)
    errors, order = rng.normal(size=(classes, trials)), rng.permutation(classes)
    for place, k in enumerate(order[1:], 1):  # later places were tried less often
        errors[k, max(1, trials - place) :] = np.nan
    chances = probabilities(distances(errors, order), 3.0)
    assert abs(chances.sum() - 1) < 1e-9
    assert (np.diff(chances[order]) <= 1e-12).all()


def test_gaps_are_paired_differences_where_they_agree_with_the_ranking() -> None:
    errors = np.array([[1.0, 2.0], [1.5, np.nan], [1.2, 2.2]])
    np.testing.assert_allclose(distances(errors, (0, 2, 1)), [0.0, 0.5, 0.2])
    np.testing.assert_allclose(distances(errors, (0, 1, 2)), [0.0, 0.5, 0.5])

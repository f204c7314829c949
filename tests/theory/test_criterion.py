"""The criterion is what recomputing r says, exactly; to first order it is sufficient, not necessary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.theory.criterion import exact_slack, first_order_slack, margin_richness, predicted_moments, ratio_change

POSITIVE = st.floats(0.01, 10)


@settings(deadline=None)
@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE)
def test_exact_is_whether_r_falls(mean: float, variance: float, mean_after: float, variance_after: float) -> None:
    sides = tuple(map(np.array, (mean, variance, mean_after, variance_after)))
    slack, ratio = exact_slack(*sides), ratio_change(*sides)
    assert ratio == pytest.approx((variance_after**0.5 / mean_after) / (variance**0.5 / mean))
    if abs(ratio - 1) > 1e-6:
        assert (slack > 0) == (ratio < 1)
    paper = (variance - variance_after) - 2 * variance / mean * (mean - mean_after)
    assert first_order_slack(*sides) * variance == pytest.approx(paper, abs=1e-9)
    assert slack * variance == pytest.approx(paper + variance / mean**2 * (mean - mean_after) ** 2, abs=1e-9)


@settings(deadline=None)
@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE)
def test_first_order_is_sufficient_for_any_change(mean: float, variance: float, after: float, spread: float) -> None:
    """Not only for small changes of mu, as the paper asks."""
    sides = tuple(map(np.array, (mean, variance, after, spread)))
    if first_order_slack(*sides) > 1e-9:
        assert ratio_change(*sides) < 1


def test_first_order_is_not_necessary() -> None:
    sides = tuple(map(np.array, (1.0, 1.0, 0.4, 0.1)))
    assert ratio_change(*sides) < 1
    assert first_order_slack(*sides) < 0 < exact_slack(*sides)


def test_no_margin_left() -> None:
    assert ratio_change(*map(np.array, (1.0, 1.0, -0.1, 1.0))) == np.inf


def test_predicted_moments_of_filtered_differences() -> None:
    """Where each band of D is really multiplied by H, the prediction with covariances is direct recomputation.

    The paper's is the same where bands are uncorrelated, and misses it where they are not.
    """
    rng, response = np.random.default_rng(0), np.array([1.0, 0.6, 0.2])
    mixed = rng.normal(size=(4000, 3)) @ np.array([[1, 0.5, 0.2], [0, 1, 0.4], [0, 0, 1]]) + np.array([0.3, 0.2, 0.1])
    alone = (mixed - mixed.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(mixed.T)).T) + mixed.mean(0)
    for bands, exact in ((mixed, False), (alone, True)):
        filtered = (bands * response).sum(1)
        mean, bare, whole = predicted_moments(response, bands.mean(0), np.cov(bands.T))
        assert mean == pytest.approx(filtered.mean())
        assert whole == pytest.approx(filtered.var(ddof=1))
        assert (bare == pytest.approx(filtered.var(ddof=1))) == exact


@settings(deadline=None)
@given(st.integers(0, 999))
def test_shrinking_a_rich_band_raises_r(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, mean = rng.normal(size=(4, 4)), rng.uniform(0.1, 1, 4)
    covariance = root @ root.T + 0.1 * np.eye(4)
    rich = margin_richness(mean, covariance)
    assert rich.sum() == pytest.approx(0, abs=1e-9)
    _, _, before = predicted_moments(np.ones(4), mean, covariance)
    for band in range(4):
        response = np.ones(4)
        response[band] = 1 - 1e-5
        after_mean, _, after = predicted_moments(response, mean, covariance)
        ratio = ratio_change(mean.sum(), before, after_mean, after)
        if abs(rich[band]) > 1e-3:
            assert (ratio > 1) == (rich[band] > 0)


def test_uniform_shrinkage_changes_nothing() -> None:
    mean, covariance = np.array([0.2, 0.1]), np.array([[1.0, 0.3], [0.3, 2.0]])
    after_mean, _, after = predicted_moments(np.full(2, 0.4), mean, covariance)
    assert ratio_change(mean.sum(), covariance.sum(), after_mean, after) == pytest.approx(1)

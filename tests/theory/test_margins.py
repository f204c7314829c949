"""Paired differences: their moments against one trial at a time, and misses where they are known in closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from bigain.theory.margins import (
    cantelli,
    gaussian_miss,
    moments,
    paired_differences,
    resampled_miss,
    strongest_rivals,
    winners,
)

RNG = np.random.default_rng


def errors(n: int = 4, classes: int = 3, trials: int = 5, seed: int = 0) -> np.ndarray:
    return RNG(seed).normal(size=(n, classes, trials)) ** 2


def test_rivals_and_differences_one_by_one() -> None:
    found, truth = errors(), np.array([0, 2, 1, 0])
    rivals = strongest_rivals(found, truth, 2)
    differences = paired_differences(found, truth, rivals)
    for i, own in enumerate(truth):
        means = {k: found[i, k].mean() for k in range(3) if k != own}
        assert rivals[i].tolist() == sorted(means, key=lambda k: means[k])
        for m, rival in enumerate(rivals[i]):
            assert differences[i, m].tolist() == pytest.approx(
                [found[i, rival, r] - found[i, own, r] for r in range(5)]
            )
    assert winners(found).tolist() == [int(np.argmin([e.mean() for e in image])) for image in found]


def test_a_class_that_lived_longer_is_the_stronger_rival() -> None:
    """Its mean may be higher: it is of harder trials, too."""
    found = np.array([[[1.0, 5.0], [0.9, np.nan], [1.1, 6.0]]])
    assert strongest_rivals(found, np.array([0]), 2).tolist() == [[2, 1]]


def test_moments_are_numpys() -> None:
    found, truth = errors(), np.array([0, 2, 1, 0])
    differences = paired_differences(found, truth, strongest_rivals(found, truth, 2))
    result = moments(differences)
    assert result.mean == pytest.approx(differences.mean((1, 2)))
    assert result.variance == pytest.approx(differences.var(2, ddof=1).mean(1))


def test_unknown_trials_are_left_out() -> None:
    differences = np.array([[[1.0, 2.0, 6.0, np.nan]]])
    assert moments(differences).mean == pytest.approx([3])
    assert moments(differences).variance == pytest.approx([7])
    with pytest.raises(ValueError, match="a variance needs two trials of an image or more, got 1"):
        moments(np.array([[[1.0, np.nan]]]))


@settings(deadline=None)
@given(st.integers(0, 99), st.integers(1, 2))
def test_bands_sum_to_the_whole(seed: int, rivals: int) -> None:
    """Parseval over bands: entries of the covariance sum to the variance, exactly, not just without covariances."""
    parts = RNG(seed).normal(size=(3, 4, 6, 5))
    truth = np.array([1, 0, 3])
    chosen = strongest_rivals(parts.sum(-1), truth, rivals)
    bands = paired_differences(parts, truth, chosen)
    found = moments(paired_differences(parts.sum(-1), truth, chosen), bands)
    assert found.bands is not None
    assert found.bands.mean.sum(1) == pytest.approx(found.mean)
    assert found.bands.covariance.sum((1, 2)) == pytest.approx(found.variance)
    assert np.diagonal(found.bands.covariance, axis1=1, axis2=2) == pytest.approx(bands.var(2, ddof=1).mean(1))


def test_gaussian_misses_are_known() -> None:
    """Trials of a Gaussian margin: the real share of misses is the closed form, and Cantelli's bound is above it."""
    mean, sigma, trials = 0.5, 1.2, 5
    sums = RNG(1).normal(mean, sigma, (200_000, trials)).mean(1)
    real = float((sums <= 0).mean())
    exact = gaussian_miss(np.array([mean]), np.array([sigma**2]), trials)[0]
    assert exact == pytest.approx(norm.sf(mean * trials**0.5 / sigma))
    assert real == pytest.approx(exact, abs=0.004)
    bound = cantelli(np.array([mean]), np.array([sigma**2]), trials)[0]
    assert bound == pytest.approx(1 / (1 + trials * mean**2 / sigma**2))
    assert real < bound


def test_cantelli_is_reached() -> None:
    """Its extremal law has two values, one of them zero."""
    for share in (0.1, 0.4):
        values = np.array([0.0] * round(100 * share) + [1.0] * round(100 * (1 - share)))
        bound = cantelli(values.mean(keepdims=True), values.var(keepdims=True), 1)
        assert bound[0] == pytest.approx(share)
        assert resampled_miss(values[None], 1)[0] == pytest.approx(share)


@settings(deadline=None)
@given(st.lists(st.floats(-5, 10), min_size=2, max_size=12), st.integers(1, 4))
def test_no_population_misses_more_than_cantelli_says(values: list[float], trials: int) -> None:
    population = np.array(values)
    if population.mean() > 1e-9 and population.var() > 1e-9:
        chosen = RNG(0).integers(0, len(values), (20_000, trials))
        real = (population[chosen].mean(1) <= 0).mean() if trials > 1 else (population <= 0).mean()
        assert real <= cantelli(population.mean(keepdims=True), population.var(keepdims=True), trials)[0] + 0.02


def test_the_bound_says_nothing_without_a_margin() -> None:
    assert cantelli(np.array([-1.0, 0.0]), np.array([1.0, 1.0]), 20).tolist() == [1, 1]


def test_resampled_misses_in_closed_form() -> None:
    """Two trials of {−1, 2}: a miss takes two of −1, so a quarter; images are alike whatever else is beside them."""
    found = resampled_miss(np.array([[-1.0, 2.0], [1.0, 1.0], [-1.0, -1.0]]), 2, draws=40_000)
    assert found == pytest.approx([0.25, 0, 1], abs=0.01)
    alone = resampled_miss(np.array([[-1.0, 2.0]]), 2, draws=40_000)
    assert alone[0] == found[0]

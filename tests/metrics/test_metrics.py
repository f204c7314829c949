import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import binomtest

from bigain.metrics.frechet import frechet_distance
from bigain.metrics.intervals import wilson


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 7), (870, 1000)])
def test_wilson_is_scipys(hits: int, n: int) -> None:
    share, theirs = wilson(hits, n), binomtest(hits, n).proportion_ci(method="wilson")
    assert share.low == pytest.approx(theirs.low, abs=1e-9)
    assert share.high == pytest.approx(theirs.high, abs=1e-9)


def test_wilson_needs_hits_among_n() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)


def test_frechet_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 6)), rng.normal(size=(150, 6)) @ rng.normal(size=(6, 6)) + 1
    cov_a, cov_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    gap = a.mean(0) - b.mean(0)
    expected = gap @ gap + np.trace(cov_a + cov_b - 2 * sqrtm(cov_a @ cov_b).real)
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-6)


def test_frechet_of_equal_sets_and_of_a_shift() -> None:
    a = np.random.default_rng(0).normal(size=(50, 80))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-4)
    assert frechet_distance(a, a + 2) == pytest.approx(4 * 80, rel=1e-6)


def test_frechet_needs_features() -> None:
    with pytest.raises(ValueError, match="features are"):
        frechet_distance(np.zeros((3, 2)), np.zeros((3, 4)))
    with pytest.raises(ValueError, match="two images"):
        frechet_distance(np.zeros((1, 2)), np.zeros((3, 2)))

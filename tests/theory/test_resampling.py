"""Resamples of images, halves that share none, and rank correlations."""

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from bigain.theory.resampling import Halves, Resampling, estimate, interval, spearman


def test_the_first_resample_is_the_sample() -> None:
    values = np.random.default_rng(0).normal(size=(30, 2))
    means = Resampling.of(30, 500).mean(values)
    assert means.shape == (501, 2)
    assert means[0] == pytest.approx(values.mean(0))
    assert Resampling.of(30, 500).weights.sum(1) == pytest.approx(np.ones(501))


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.random.default_rng(1).normal(size=400)
    found = estimate(Resampling.of(400, 4000).mean(values))
    half = norm.ppf(0.975) * values.std(ddof=1) / 20
    assert found["value"] == pytest.approx(values.mean())
    assert [found["low"], found["high"]] == pytest.approx([values.mean() - half, values.mean() + half], abs=0.01)


def test_halves_share_no_image() -> None:
    halves = Halves.of(11, 60, splits=3)
    for a, b in (halves.plain, halves.drawn):
        assert ((a.weights > 0) & (b.weights > 0)).sum() == 0
        assert a.weights.sum(1) == pytest.approx(np.ones(len(a.weights)))
        assert b.weights.sum(1) == pytest.approx(np.ones(len(b.weights)))
    whole = (halves.plain[0].weights > 0) | (halves.plain[1].weights > 0)
    assert whole.all()
    assert len(halves.drawn[0].weights) == 60


def test_rank_correlation_is_scipys() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(5, 9)), rng.integers(0, 4, (5, 9)).astype(float)
    assert spearman(a, b) == pytest.approx([spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)])
    assert spearman(np.array([1.0, 2.0, np.inf]), np.array([1.0, 2.0, 3.0])) == 1
    assert spearman(np.ones(3), np.arange(3.0)) == 0


def test_intervals_of_few_are_refused_and_infinite_ends_are_none() -> None:
    with pytest.raises(ValueError, match="two images or more, got 1"):
        Resampling.of(1, 10)
    with pytest.raises(ValueError, match="four images or more, got 3"):
        Halves.of(3, 10)
    found = interval(1.0, np.array([0.5] * 50 + [np.inf] * 50))
    assert found == {"value": 1.0, "low": 0.5, "high": None}

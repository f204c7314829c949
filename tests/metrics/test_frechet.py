import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from torch import nn
from torchmetrics.image.fid import FrechetInceptionDistance

from bigain.metrics.frechet import frechet_between, frechet_distance, frechet_spread, moments


def test_frechet_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 6)), rng.normal(size=(150, 6)) @ rng.normal(size=(6, 6)) + 1
    cov_a, cov_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    gap = a.mean(0) - b.mean(0)
    expected = gap @ gap + np.trace(cov_a + cov_b - 2 * sqrtm(cov_a @ cov_b).real)
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-6)


def test_frechet_is_torchmetrics() -> None:
    network = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 5)).eval().requires_grad_(False)
    metric = FrechetInceptionDistance(feature=network, normalize=True, input_img_size=(3, 8, 8))
    generator = torch.Generator().manual_seed(0)
    real, fake = (torch.rand(60, 3, 8, 8, generator=generator) ** power for power in (1, 2))
    metric.update(real, real=True)
    metric.update(fake, real=False)
    assert frechet_distance(network(real).numpy(), network(fake).numpy()) == pytest.approx(float(metric.compute()))


@given(st.integers(2, 40), st.integers(2, 40), st.integers(1, 20), st.integers(0, 10**6))
def test_frechet_is_symmetric_and_turns_with_the_features(n: int, m: int, d: int, seed: int) -> None:
    """More images than features or fewer; a rotation of the features changes nothing, a factor counts squared."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, d)), rng.normal(1, 2, size=(m, d))
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    value = frechet_distance(a, b)
    assert value >= -1e-9
    assert frechet_distance(b, a) == pytest.approx(value, abs=1e-8)
    assert frechet_distance(a @ turn, b @ turn) == pytest.approx(value, rel=1e-6, abs=1e-8)
    assert frechet_distance(3 * a, 3 * b) == pytest.approx(9 * value, rel=1e-6, abs=1e-7)


def test_frechet_of_equal_sets_and_of_a_shift() -> None:
    a = np.random.default_rng(0).normal(size=(50, 80))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(a, a + 2) == pytest.approx(4 * 80, rel=1e-6)


def test_moments_hold_the_covariance_in_few_rows() -> None:
    for shape in ((30, 5), (5, 30)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        found = moments(x)
        assert len(found.factor) == 5
        assert found.factor.T @ found.factor == pytest.approx(np.cov(x, rowvar=False), abs=1e-6)


def test_the_error_of_halves_is_that_of_repeated_sampling() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(4000, 3))
    fixed = moments(reference)
    samples = [rng.normal(0.5, 1.3, size=(400, 3)) for _ in range(60)]
    true_error = np.std([frechet_between(moments(x), fixed) for x in samples], ddof=1)
    errors = [frechet_spread(x, reference, repeats=30, seed=i).error for i, x in enumerate(samples[:12])]
    assert np.mean(errors) == pytest.approx(true_error, rel=0.25)


def test_the_bias_of_halves_is_that_of_few_images() -> None:
    """Both sets are of one distribution: the distance of it to itself is 0, and the rest is bias."""
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(20000, 5))
    samples = [rng.normal(size=(300, 5)) for _ in range(20)]
    values = [frechet_distance(x, reference) for x in samples]
    biases = [frechet_spread(x, reference, seed=i).bias for i, x in enumerate(samples)]
    assert np.mean(biases) == pytest.approx(np.mean(values), rel=0.2)


def test_frechet_needs_features() -> None:
    with pytest.raises(ValueError, match="features must be of one width in both sets, got 2 and 4"):
        frechet_distance(np.zeros((3, 2)), np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"features must be \(n, d\), got \(3,\)"):
        moments(np.zeros(3))
    with pytest.raises(ValueError, match="two images or more, got 1"):
        frechet_distance(np.zeros((1, 2)), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="four images and two repeats or more, got 3 and 20"):
        frechet_spread(np.zeros((3, 2)), np.zeros((3, 2)))

"""Fréchet distance between two sets of features, and its error at few images."""

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Moments of a set for the Fréchet distance: mean (d,), and a factor F (r, d) of the covariance FᵀF."""

    mean: np.ndarray
    factor: np.ndarray


class Spread(NamedTuple):
    """Standard error of a Fréchet distance, the part of its value that is only due to few images, and the halves'."""

    error: float
    bias: float
    halves: tuple[float, ...]


def moments(features: np.ndarray) -> Moments:
    """Mean and covariance in float64: (n, d) -> moments, the factor having no more than min(n, d) rows."""
    if features.ndim != 2:
        raise ValueError(f"features must be (n, d), got {features.shape}")
    if len(features) < 2:
        raise ValueError(f"a covariance needs two images or more, got {len(features)}")
    mean = features.mean(0, dtype=np.float64)
    factor = (features - mean) / np.sqrt(len(features) - 1)
    if len(factor) > len(mean):
        factor = np.asarray(np.linalg.qr(factor, mode="r"))
    return Moments(mean, factor)


def frechet_between(a: Moments, b: Moments) -> float:
    """|mean a − mean b|² + tr(A + B − 2 (A B)^½).

    The trace of the root is the sum of the singular values of the product of the factors, so that nothing complex can
    appear and singular covariances are fine.
    """
    if a.mean.shape != b.mean.shape:
        raise ValueError(f"features must be of one width in both sets, got {len(a.mean)} and {len(b.mean)}")
    gap = a.mean - b.mean
    cross = np.linalg.svd(a.factor @ b.factor.T, compute_uv=False).sum()
    return float(gap @ gap + np.square(a.factor).sum() + np.square(b.factor).sum() - 2 * cross)


def frechet_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Fréchet distance of the normal distributions fitted to two sets: (n, d), (m, d) -> a number."""
    return frechet_between(moments(a), moments(b))


def frechet_spread(generated: np.ndarray, reference: np.ndarray, *, repeats: int = 20, seed: int = 0) -> Spread:
    """Spread of the distance over random halves of the generated images, the reference held: (n, d), (m, d).

    The standard deviation over halves drawn without replacement is the standard error at the full n (the delete-half
    jackknife). The distance has a bias that falls as 1/n where n is well above d, so the mean over halves exceeds the
    value by about that bias. Below n = d the rule does not hold: take the bias as a warning, never as a correction, and
    compare only values of one n. The same n and seed choose the same halves. Close to the value of real images the
    distribution is skew and the error rough.
    """
    rng, half, fixed = np.random.default_rng(seed), len(generated) // 2, moments(reference)
    if half < 2 or repeats < 2:
        raise ValueError(f"halves need four images and two repeats or more, got {len(generated)} and {repeats}")
    halves = [generated[rng.permutation(len(generated))[:half]] for _ in range(repeats)]
    values = np.array([frechet_between(moments(part), fixed) for part in halves])
    whole = frechet_between(moments(generated), fixed)
    return Spread(float(values.std(ddof=1)), float(values.mean() - whole), tuple(values.tolist()))

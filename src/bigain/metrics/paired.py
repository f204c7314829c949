"""Two methods on the same images: tests and intervals of their difference."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binomtest, norm

from bigain.metrics.intervals import Estimate, bootstrap_mean


class McNemar(NamedTuple):
    """Images that only one of two methods got right, and the exact two-sided p-value of their being even."""

    only_a: int
    only_b: int
    n: int
    p: float

    def __str__(self) -> str:
        return f"{self.only_a} against {self.only_b} of {self.n} images, p = {self.p:.2g}"


def mcnemar(a: np.ndarray, b: np.ndarray) -> McNemar:
    """Exact McNemar test, from whether each method was right on each image: (n,), (n,) true or false."""
    only_a, only_b = _discordant(a, b)
    p = binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    return McNemar(only_a, only_b, len(a), float(p))


def share_difference(a: np.ndarray, b: np.ndarray, confidence: float = 0.95) -> Estimate:
    """Share of a minus share of b with Tango's score interval (Statistics in Medicine 17, 1998, 891-908).

    (n,), (n,) true or false. It holds the differences that a score test of paired shares does not refuse; at a
    difference of 0 that test is McNemar's without correction. It stays within [-1, 1] and has a width without
    discordant pairs too.
    """
    only_a, only_b = _discordant(a, b)
    n, z2 = len(a), float(norm.ppf((1 + confidence) / 2)) ** 2
    found, edge = (only_a - only_b) / n, z2 / (n + z2)
    if only_a + only_b == 0:
        return Estimate(0.0, -edge, edge, n)
    if abs(found) == 1:
        low, high = sorted((found, found * (1 - 2 * edge)))
        return Estimate(found, low, high, n)

    def excess(difference: float) -> float:
        return (only_a - only_b - n * difference) ** 2 - z2 * _score_variance(difference, only_a, only_b, n)

    return Estimate(found, float(brentq(excess, -1, found)), float(brentq(excess, found, 1)), n)


def mean_difference(
    a: np.ndarray, b: np.ndarray, *, confidence: float = 0.95, resamples: int = 9999, seed: int = 0
) -> Estimate:
    """Mean of a minus mean of b, with the percentile bootstrap interval over images: (n,), (n,)."""
    if a.shape != b.shape:
        raise ValueError(f"a paired difference needs the same images, got {a.shape} and {b.shape}")
    differences = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    return bootstrap_mean(differences, confidence=confidence, resamples=resamples, seed=seed)


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values of a family of comparisons, adjusted by Holm's step-down: (m,) -> (m,)."""
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p-values must be (m,) numbers in [0, 1], got {p_values}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return adjusted


def _discordant(a: np.ndarray, b: np.ndarray) -> tuple[int, int]:
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise ValueError(f"a paired comparison needs the same images, (n,) both, got {a.shape} and {b.shape}")
    if a.dtype != bool or b.dtype != bool:
        raise ValueError(f"a paired comparison needs True or False for each image, got {a.dtype} and {b.dtype}")
    return int((a & ~b).sum()), int((~a & b).sum())


def _score_variance(difference: float, only_a: int, only_b: int, n: int) -> float:
    """Variance of only_a − only_b where the true difference is given and the rest is most likely."""
    linear = (2 * n - only_a + only_b) * difference - only_a - only_b
    constant = -only_b * difference * (1 - difference)
    chance_b = (np.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
    return float(n * (2 * chance_b + difference * (1 - difference)))

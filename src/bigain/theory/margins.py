"""Paired differences of a rival's error to the true class's: their mean, variance and how often they miss.

Shapes: n images, K classes, R trials, M rivals, B bands. NaN is an error that was not computed.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

DRAWN = 2**22  # resampled values held in memory at once


def strongest_rivals(errors: np.ndarray, truth: np.ndarray, count: int = 1) -> np.ndarray:
    """The other classes with the lowest mean errors, lowest first: (n, K, R), (n,) -> (n, M).

    A class of which more trials are known outlived the others, so it comes first.
    """
    known = np.isfinite(errors)
    means = np.where(known, errors, 0).sum(2) / np.maximum(known.sum(2), 1)
    own = np.arange(errors.shape[1]) == truth[:, None]
    return np.lexsort((means, -known.sum(2), own), axis=1)[:, :count]


def paired_differences(errors: np.ndarray, truth: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    """D = error of a rival − error of the true class: (n, K, R, ...), (n,), (n, M) -> (n, M, R, ...)."""
    images = np.arange(len(errors))
    return errors[images[:, None], rivals] - errors[images, truth][:, None]


class BandMoments(NamedTuple):
    """Moments of D band by band; the entries of a covariance sum to the variance of D."""

    mean: np.ndarray  # (n, B)
    covariance: np.ndarray  # (n, B, B)


class Moments(NamedTuple):
    """Moments of D over the trials of each image, means over its rivals.

    The pooled mu is the mean over images of `mean`, the pooled sigma² that of `variance`.
    """

    mean: np.ndarray  # (n,)
    variance: np.ndarray  # (n,)
    bands: BandMoments | None = None


def moments(differences: np.ndarray, bands: np.ndarray | None = None) -> Moments:
    """Unbiased moments: (n, M, R), NaN where unknown, and (n, M, R, B) -> moments of each image."""
    if bands is None:
        known = np.isfinite(differences)
        count = known.sum(2)
        if (count < 2).any():
            raise ValueError(f"a variance needs two trials of an image or more, got {count.min()}")
        means = np.where(known, differences, 0).sum(2) / count
        squares = np.square(np.where(known, differences - means[:, :, None], 0)).sum(2) / (count - 1)
        return Moments(means.mean(1), squares.mean(1))
    centred = bands - bands.mean(2, keepdims=True)
    covariance = np.einsum("nmri,nmrj->nij", centred, centred) / (bands.shape[1] * (bands.shape[2] - 1))
    return moments(differences)._replace(bands=BandMoments(bands.mean((1, 2)), covariance))


def cantelli(mean: np.ndarray, variance: np.ndarray, trials: int) -> np.ndarray:
    """f(r) = (σ²/S) / (μ² + σ²/S), the most that S trials can miss; 1 where μ <= 0, where the bound does not hold."""
    spread = variance / trials
    total = np.where(mean > 0, mean**2 + spread, 1)
    return np.where(mean > 0, spread / total, 1.0)


def gaussian_miss(mean: np.ndarray, variance: np.ndarray, trials: int) -> np.ndarray:
    """How often S trials miss if D is Gaussian: Φ(−μ √S / σ), for positive σ."""
    return norm.cdf(-mean * math.sqrt(trials) / np.sqrt(variance))


def resampled_miss(differences: np.ndarray, trials: int, draws: int = 400, seed: int = 0) -> np.ndarray:
    """How often the mean of S trials, drawn with replacement from an image's own, is not positive: (n, R) -> (n,).

    The drawn trials are independent, as in the paper. One trial is counted, not drawn.
    """
    if trials == 1:
        return (differences <= 0).mean(1)
    chosen = np.random.default_rng(seed).integers(0, differences.shape[1], (draws, trials))
    at_once = max(1, DRAWN // chosen.size)
    parts = [differences[first : first + at_once] for first in range(0, len(differences), at_once)]
    return np.concatenate([(part[:, chosen].mean(2) <= 0).mean(1) for part in parts])


def winners(errors: np.ndarray) -> np.ndarray:
    """The class with the lowest mean error over all trials: (n, K, R) -> (n,)."""
    return errors.mean(2).argmin(1)

"""Probabilities that mean what they say: one temperature, fitted on held-out images."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from bigain.classify.decision import probabilities


class Calibration(NamedTuple):
    """What `calibrate` did: the factor on the paired differences, and the calibration error before and after."""

    scale: float
    ece_before: float
    ece_after: float
    n: int


class Fit(NamedTuple):
    """The scale that suits best, and the mean cross-entropy of the true class with it."""

    scale: float
    loss: float


def calibrate(gaps: np.ndarray, truth: np.ndarray, scale: float) -> Calibration:
    """(n, K) gaps to the winner, (n,) true classes, the scale until now -> what the best scale does."""
    found = fit_scale(gaps, truth, scale).scale
    return Calibration(found, calibration_error(gaps, truth, scale), calibration_error(gaps, truth, found), len(truth))


def fit_scale(gaps: np.ndarray, truth: np.ndarray, near: float) -> Fit:
    """The scale with the least negative log-likelihood, not farther than orders of magnitude from a first guess."""

    def loss(log_scale: float) -> float:
        chances = probabilities(gaps, np.exp(log_scale))
        return float(-np.log(chances[np.arange(len(truth)), truth].clip(1e-12)).mean())

    centre = np.log(near)
    found = minimize_scalar(loss, bounds=(centre - 12, centre + 6), method="bounded")
    return Fit(float(np.exp(found.x)), float(found.fun))


def calibration_error(gaps: np.ndarray, truth: np.ndarray, scale: float, bins: int = 10) -> float:
    """Expected calibration error of the winner's probability, in equal-width bins."""
    chances = probabilities(gaps, scale)
    sure, right = chances.max(1), chances.argmax(1) == truth
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps_by_bin = [abs(sure[place == b].mean() - right[place == b].mean()) * (place == b).mean() for b in set(place)]
    return float(sum(gaps_by_bin))

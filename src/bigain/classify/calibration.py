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


def fit_scale(gaps: np.ndarray, truth: np.ndarray, scale: float) -> Calibration:
    """The scale with the least negative log-likelihood: (n, K) gaps to the winner, (n,) true classes."""

    def loss(log_scale: float) -> float:
        chances = np.stack([probabilities(row, np.exp(log_scale)) for row in gaps])
        return float(-np.log(chances[np.arange(len(truth)), truth].clip(1e-12)).mean())

    centre = np.log(scale)
    found = float(np.exp(minimize_scalar(loss, bounds=(centre - 12, centre + 6), method="bounded").x))
    return Calibration(found, calibration_error(gaps, truth, scale), calibration_error(gaps, truth, found), len(truth))


def calibration_error(gaps: np.ndarray, truth: np.ndarray, scale: float, bins: int = 10) -> float:
    """Expected calibration error of the winner's probability, in equal-width bins."""
    chances = np.stack([probabilities(row, scale) for row in gaps])
    sure, right = chances.max(1), chances.argmax(1) == truth
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps_by_bin = [abs(sure[place == b].mean() - right[place == b].mean()) * (place == b).mean() for b in set(place)]
    return float(sum(gaps_by_bin))

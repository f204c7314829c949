"""Probabilities that mean what they say: one temperature, fitted on held-out images."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from bigain.classify.decision import probabilities

SEARCHED = (-12.0, 6.0)  # logarithms of the smallest and the largest change of the scale
EDGE = 0.1  # a fit this near to an end of them has found no optimum


class Calibration(NamedTuple):
    """The result of `calibrate`: the factor on paired differences, and the calibration error before and after."""

    scale: float
    ece_before: float
    ece_after: float
    n: int
    kept: str = ""  # why the scale stayed as it was, where it did


class Fit(NamedTuple):
    """The best scale, and the mean cross-entropy of the true class with it."""

    scale: float
    loss: float


def calibrate(gaps: np.ndarray, truth: np.ndarray, scale: float) -> Calibration:
    """(n, K) gaps to the winner, (n,) true classes, the current scale -> the effect of the best scale."""
    fitted = fit_scale(gaps, truth, scale).scale
    kept = why_kept(gaps, truth, np.log(fitted / scale))
    found = scale if kept else fitted
    before, after = (calibration_error(gaps, truth, one) for one in (scale, found))
    return Calibration(found, before, after, len(truth), kept)


def why_kept(gaps: np.ndarray, truth: np.ndarray, change: float) -> str:
    """Why these images do not determine the scale, or None; `change` is the logarithm of the fitted factor."""
    right = int((gaps.argmin(1) == truth).sum())
    if right == len(truth):
        return f"all {right} images are classified correctly, which fits no temperature; use more or harder images"
    if right == 0:
        return f"none of {len(truth)} images is classified correctly; are the labels in the order of the images?"
    low, high = SEARCHED
    if change < low + EDGE or change > high - EDGE:
        return f"the fit on {len(truth)} images diverges; use more images"
    return ""


def fit_scale(gaps: np.ndarray, truth: np.ndarray, near: float) -> Fit:
    """The scale with the lowest negative log-likelihood, within orders of magnitude of a first guess."""

    def loss(log_scale: float) -> float:
        chances = probabilities(gaps, np.exp(log_scale))
        return float(-np.log(chances[np.arange(len(truth)), truth].clip(1e-12)).mean())

    centre = np.log(near)
    low, high = SEARCHED
    found = minimize_scalar(loss, bounds=(centre + low, centre + high), method="bounded")
    return Fit(float(np.exp(found.x)), float(found.fun))


def calibration_error(gaps: np.ndarray, truth: np.ndarray, scale: float, bins: int = 10) -> float:
    """Expected calibration error of the winner's probability, in equal-width bins."""
    chances = probabilities(gaps, scale)
    sure, right = chances.max(1), chances.argmax(1) == truth
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps_by_bin = [abs(sure[place == b].mean() - right[place == b].mean()) * (place == b).mean() for b in set(place)]
    return float(sum(gaps_by_bin))

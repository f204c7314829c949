"""Shares and means with their intervals."""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, binomtest

DRAWS = 2**22  # resampled values held in memory at once


class Share(NamedTuple):
    """A share of hits with its Wilson interval."""

    hits: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.hits / self.n

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}], n = {self.n}"


class Estimate(NamedTuple):
    """A mean, or a difference of means or shares, with its interval; no numbers where n is too small for one."""

    value: float
    low: float
    high: float
    n: int

    @property
    def bounded(self) -> bool:
        return not math.isnan(self.low)

    @property
    def interval(self) -> tuple[float, float] | None:
        return (self.low, self.high) if self.bounded else None

    def as_json(self) -> dict[str, float | None]:
        """Without bounds where there are none: JSON has no NaN."""
        return {key: None if math.isnan(value) else value for key, value in self._asdict().items()}

    def __str__(self) -> str:
        if not self.bounded:
            return f"{self.value:.4g}, n = {self.n}: too few for an interval"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}], n = {self.n}"


def wilson(hits: int, n: int, confidence: float = 0.95) -> Share:
    """A share with its Wilson score interval."""
    if not 0 <= hits <= n or n == 0:
        raise ValueError(f"a share needs 0 <= hits <= n and n above 0, got {hits} of {n}")
    interval = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    return Share(hits, n, float(interval.low), float(interval.high))


def median_interval(values: np.ndarray, confidence: float = 0.95) -> Estimate:
    """The median with the interval of the sign test: (n,) -> an estimate; too few values, five for 95 %, give none."""
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"a median needs one value or more, got shape {values.shape}")
    ordered, n = np.sort(values), len(values)
    if 2 * 0.5**n > 1 - confidence:  # even all values miss the median too often
        return Estimate(float(np.median(values)), math.nan, math.nan, n)
    outside = max(0, int(binom.ppf((1 - confidence) / 2, n, 0.5)) - 1)  # left out at each end
    return Estimate(float(np.median(values)), float(ordered[outside]), float(ordered[n - 1 - outside]), n)


def bootstrap_mean(values: np.ndarray, *, confidence: float = 0.95, resamples: int = 9999, seed: int = 0) -> Estimate:
    """The mean of one value per image, with its percentile bootstrap interval: (n,) -> an estimate."""
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"a bootstrap needs one value for each of two images or more, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"a mean needs finite values; {np.flatnonzero(~np.isfinite(values))[:5].tolist()} are not")
    rng, n = np.random.default_rng(seed), len(values)
    rows = max(1, DRAWS // n)
    counts = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    means = np.concatenate([values[rng.integers(0, n, (count, n))].mean(1) for count in counts])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(float(values.mean()), float(low), float(high), n)

"""Ratios of times in the same rounds, with an interval if there are enough rounds."""

import numpy as np

from bigain.metrics.intervals import Estimate, median_interval

FEWEST_ROUNDS = 6  # of fewer, the sign test knows no interval of 95 %


def compared(own: list[float], other: list[float]) -> Estimate:
    """The median of the ratios, round by round."""
    return median_interval(np.array([a / b for a, b in zip(own, other, strict=True)]))

"""Times of the same rounds in relation to each other, with an interval where there are enough rounds for one."""

import numpy as np

from bigain.metrics.intervals import Estimate, median_interval

FEWEST_ROUNDS = 6  # of fewer, the sign test knows no interval of 95 %


def compared(own: list[float], other: list[float]) -> Estimate:
    """Times in relation to others, round by round: the median."""
    return median_interval(np.array([a / b for a, b in zip(own, other, strict=True)]))

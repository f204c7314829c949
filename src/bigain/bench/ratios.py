"""Times of the same rounds in relation to each other, with an interval where there are enough rounds for one."""

import statistics
from typing import NamedTuple

import numpy as np

from bigain.metrics.intervals import median_interval

FEWEST_ROUNDS = 6  # of fewer, the sign test knows no interval of 95 %


class Ratio(NamedTuple):
    """The median over rounds with its 95 % interval, which needs six rounds."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


def compared(own: list[float], other: list[float]) -> Ratio:
    """Times in relation to others, round by round."""
    found = [a / b for a, b in zip(own, other, strict=True)]
    if len(found) < FEWEST_ROUNDS:
        return Ratio(statistics.median(found), None, None, len(found))
    return Ratio(*median_interval(np.array(found)))

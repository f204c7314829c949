"""Shares and their intervals."""

from typing import NamedTuple

from scipy.stats import binomtest


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


def wilson(hits: int, n: int, confidence: float = 0.95) -> Share:
    """A share with its Wilson score interval."""
    if not 0 <= hits <= n or n == 0:
        raise ValueError(f"a share needs 0 <= hits <= n and n above 0; got {hits} of {n}")
    interval = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    return Share(hits, n, float(interval.low), float(interval.high))

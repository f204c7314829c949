"""Shares and their intervals."""

import math
from typing import NamedTuple


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


def wilson(hits: int, n: int, z: float = 1.959963984540054) -> Share:
    """The Wilson score interval, at 95 % by default."""
    if not 0 <= hits <= n or n == 0:
        raise ValueError(f"a share needs 0 <= hits <= n and n above 0; got {hits} of {n}")
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Share(hits, n, max(0.0, centre - half), min(1.0, centre + half))

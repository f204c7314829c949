"""Merging by matching: destinations differ between operators, the rest is shared."""

from typing import Literal, Protocol

from torch import Tensor

from bigain.operators.base import as_window
from bigain.tokens.grid import Grid
from bigain.tokens.matching import MATCHES, merge_most_similar
from bigain.tokens.plans import Assignment, assign

MatchName = Literal["auto", "exact", "local"]


class Merging(Protocol):
    """What an operator says about how it merges."""

    @property
    def ratio(self) -> float: ...
    @property
    def window(self) -> int | tuple[int, int]: ...
    @property
    def match(self) -> MatchName: ...
    @property
    def weighted(self) -> bool: ...


def merge_into(offset: Tensor, x: Tensor, grid: Grid, how: Merging) -> Assignment:
    """Merge the best-matched share of all tokens into the destinations at `offset` of each cell.

    (B, T) or (1, T), (B, N, C) -> Assignment.
    """
    removed = int(grid.tokens * how.ratio)
    match = MATCHES[how.match](x, offset, grid, as_window(how.window))
    return assign(merge_most_similar(grid.tokens, match, removed), removed, weighted=how.weighted)

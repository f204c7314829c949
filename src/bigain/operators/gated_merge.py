"""Laplacian-gated token merging (L-GTM): smooth tokens are the anchors that others merge into."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from bigain.operators.base import (
    OPERATORS,
    Call,
    as_window,
    check_cells,
    check_choice,
    check_flag,
    check_ratio,
    check_scorer,
    plain_fields,
)
from bigain.operators.merging import MatchName, merge_into
from bigain.tokens.grid import Grid, Window, window_partition
from bigain.tokens.matching import MATCHES
from bigain.tokens.plans import Assignment, Identity
from bigain.tokens.scores import SCORERS


@OPERATORS.register("gated_merge")
@dataclass(frozen=True)
class GatedMerge:
    """L-GTM, Laplacian-gated token merging: similar tokens are averaged into the lowest-score token of each cell.

    `ratio` is the fraction of tokens removed. `anchor` is "lowest" in the paper. Two controls: "highest" takes the
    token with the highest score, and "row_order" finds the minimum of every A neighbours along a row but writes its
    position into a cell, which is what the code released with the paper does and which is close to random.

    `match="exact"` compares every token with the destinations of the whole grid, as the paper and tomesd do. "local"
    compares it with those of its own and the eight neighbouring cells, at a cost that is linear in the number of
    tokens. "auto" is exact up to 4,096 tokens and local beyond.
    """

    data_dependent: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False
    reduces_queries: ClassVar[bool] = True

    ratio: float
    window: int | tuple[int, int] = 2
    scorer: str = "laplacian_l1"
    anchor: Literal["lowest", "highest", "row_order"] = "lowest"
    match: MatchName = "auto"
    weighted: bool = False

    def __post_init__(self) -> None:
        plain_fields(self)
        check_ratio(self.ratio, self.window)
        check_scorer(self.scorer)
        check_choice("anchor", self.anchor, ("lowest", "highest", "row_order"))
        check_choice("match", self.match, tuple(MATCHES))
        check_flag("weighted", self.weighted)

    def plan(self, x: Tensor, call: Call) -> Assignment | Identity:
        if int(call.grid.tokens * self.ratio) == 0:
            return Identity()
        window = as_window(self.window)
        check_cells(window, call.grid)
        score = SCORERS[self.scorer](x, call.grid)
        offset = self._offset(score, call.grid, window)
        return merge_into(offset, x, call.grid, self)

    def _offset(self, score: Tensor, grid: Grid, window: Window) -> Tensor:
        """Position of each cell's destination: (B, N) -> (B, T)."""
        if self.anchor == "highest":
            return window_partition(score, grid, window).argmax(-1)
        if self.anchor == "lowest":
            return window_partition(score, grid, window).argmin(-1)
        rows, columns = window.cells(grid)
        whole = score.view(-1, *grid)[:, : rows * window.height, : columns * window.width]
        return whole.reshape(score.shape[0], rows * columns, window.tokens).argmin(-1)

"""Adaptive block merging (ABM): whole smooth tiles are averaged, with no matching."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
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
from bigain.tokens.constants import arange
from bigain.tokens.grid import token_index, window_partition
from bigain.tokens.plans import Assignment, Identity, assign
from bigain.tokens.scores import SCORERS

TILE_SCORES: dict[str, Callable[..., Tensor]] = {"max": torch.amax, "mean": torch.mean, "min": torch.amin}


@OPERATORS.register("block_merge")
@dataclass(frozen=True)
class BlockMerge:
    """ABM, adaptive block merging: the smoothest tiles become one token each; other tokens are unchanged.

    `ratio` is the fraction of tokens removed. A tile's score is the "max" (as in the paper), "mean" or "min" of its
    tokens' scores.
    """

    data_dependent: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False
    reduces_queries: ClassVar[bool] = True

    ratio: float
    window: int | tuple[int, int] = 2
    scorer: str = "laplacian_l1"
    tile: Literal["max", "mean", "min"] = "max"
    weighted: bool = False

    def __post_init__(self) -> None:
        plain_fields(self)
        check_ratio(self.ratio, self.window)
        check_scorer(self.scorer)
        check_choice("tile score", self.tile, tuple(TILE_SCORES))
        check_flag("weighted", self.weighted)

    def plan(self, x: Tensor, call: Call) -> Assignment | Identity:
        window, grid = as_window(self.window), call.grid
        merged = int(grid.tokens * self.ratio) // (window.tokens - 1)
        if merged == 0:
            return Identity()
        check_cells(window, grid)
        tiles = window.cells(grid).tokens
        if merged > tiles:
            largest = tiles * (window.tokens - 1) / grid.tokens
            raise ValueError(
                f"block_merge(ratio={self.ratio}) would merge {merged} tiles, but a grid of {grid} tokens has "
                f"{tiles} whole tiles of {window}: the largest ratio there is {largest:.4f}"
            )
        score = window_partition(SCORERS[self.scorer](x, grid), grid, window)
        smooth = TILE_SCORES[self.tile](score, -1).argsort(dim=1, stable=True)[:, :merged]

        offsets = arange(window.tokens, x.device).expand(1, tiles, -1)
        members = token_index(offsets, grid, window).expand(x.shape[0], -1, -1)
        members = members.gather(1, smooth[..., None].expand(-1, -1, window.tokens))
        first = members[..., :1].expand_as(members)
        target = arange(grid.tokens, x.device).expand(x.shape[0], -1)
        target = target.scatter(1, members.flatten(1), first.flatten(1))
        return assign(target, merged * (window.tokens - 1), weighted=self.weighted)

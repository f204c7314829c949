"""ToMA: soft merging into destinations that cover their tile (Lu et al., ICML 2025)."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Literal

import torch
from torch import Tensor

from bigain.operators.base import (
    OPERATORS,
    Call,
    as_window,
    check_choice,
    check_flag,
    check_ratio,
    plain_fields,
)
from bigain.tokens.facility import facility_locations
from bigain.tokens.grid import left_over
from bigain.tokens.matching import unit
from bigain.tokens.plans import Identity
from bigain.tokens.precision import widen
from bigain.tokens.soft import SoftAssignment, equal_tiles, pseudo_inverse, soft_assign, tile_order


@OPERATORS.register("toma")
@dataclass(frozen=True)
class ToMA:
    """ToMA, token merge with attention: tokens are mixed into destinations that together stand nearest to all.

    `ratio` is the fraction of tokens removed, equally many in each tile. `tiles` is the size of a tile in tokens, an
    int or (height, width); tiles grow by a few tokens where that leaves fewer over, and tokens in no whole tile stay as
    they are. In each tile a greedy search finds the destinations. Each other token belongs to all of them by shares, a
    softmax of its cosines over `temperature`.

    `unmerge="transpose"` gives a token its shares of the merged tokens; "pinv" takes the pseudo-inverse of merging,
    with which merging undoes unmerging.
    """

    data_dependent: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False
    reduces_queries: ClassVar[bool] = True

    ratio: float
    tiles: int | tuple[int, int] = 8
    temperature: float = 0.1
    unmerge: Literal["transpose", "pinv"] = "transpose"
    weighted: bool = False

    def __post_init__(self) -> None:
        plain_fields(self)
        check_ratio(self.ratio, self.tiles, "tiles")
        check_choice("unmerge", self.unmerge, ("transpose", "pinv"))
        check_flag("weighted", self.weighted)
        number = isinstance(self.temperature, Real) and not isinstance(self.temperature, bool)
        if not number or not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be a number above 0, got {self.temperature!r}")

    def plan(self, x: Tensor, call: Call) -> SoftAssignment | Identity:
        grid = call.grid
        tile = equal_tiles(grid, as_window(self.tiles))
        tiles = tile.cells(grid).tokens
        removed = int(grid.tokens * self.ratio) // tiles
        if removed == 0:
            return Identity()
        if removed >= tile.tokens:
            raise ValueError(
                f"toma(ratio={self.ratio}) would remove {removed} tokens of each tile of {tile}, in which one stays: "
                f"the largest ratio on a grid of {grid} tokens is {tiles * (tile.tokens - 1) / grid.tokens:.4f}"
            )
        order = tile_order(grid, tile, x.device)
        inside = order[: tiles * tile.tokens]
        tokens = unit(x.index_select(1, inside)).unflatten(1, (tiles, tile.tokens))
        similarity = widen(tokens @ tokens.transpose(2, 3))
        destinations = facility_locations(similarity, tile.tokens - removed)
        share = soft_assign(similarity, destinations, self.temperature)
        size = share.sum(2)
        inverse = pseudo_inverse(share, size) if self.unmerge == "pinv" else None
        rest = left_over(grid, tile, x.device).expand(x.shape[0], -1)
        keep = inside.view(1, tiles, -1).expand(x.shape[0], -1, -1).gather(2, destinations)
        return SoftAssignment(
            grid, tile, share, torch.cat([size.flatten(1), torch.ones_like(rest, dtype=size.dtype)], 1),
            torch.cat([keep.flatten(1), rest], 1), inverse, self.weighted,
        )  # fmt: skip

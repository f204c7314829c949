"""Token merging (ToMe) as in tomesd: the destination of each cell is drawn, not chosen."""

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
    check_seed,
    plain_fields,
)
from bigain.operators.merging import MatchName, merge_into
from bigain.tokens.constants import arange
from bigain.tokens.draws import branch, draw_bits
from bigain.tokens.grid import Window
from bigain.tokens.matching import MATCHES
from bigain.tokens.plans import Assignment, Identity


@OPERATORS.register("tome")
@dataclass(frozen=True)
class ToMe:
    """ToMe, token merging: similar tokens are averaged into a random token of each cell.

    `ratio` is the fraction of tokens removed. `pattern` says how destinations are drawn. "per_call": new for every
    site and forward pass, the same for all rows of a batch, as in tomesd. "per_row": also new for every row, so that
    the classes of a trial are merged differently, as if each had its own call. "fixed": one pattern from the seed for
    all calls. "corner": the first token of each cell, `use_rand=False` in tomesd. `match` as in `gated_merge`; tomesd's
    is "exact".
    """

    data_dependent: ClassVar[bool] = True
    reduces_queries: ClassVar[bool] = True

    ratio: float
    window: int | tuple[int, int] = 2
    pattern: Literal["per_call", "per_row", "fixed", "corner"] = "per_call"
    seed: int = 0
    match: MatchName = "exact"
    weighted: bool = False

    def __post_init__(self) -> None:
        plain_fields(self)
        check_ratio(self.ratio, self.window)
        check_choice("pattern", self.pattern, ("per_call", "per_row", "fixed", "corner"))
        check_seed(self.seed)
        check_choice("match", self.match, tuple(MATCHES))
        check_flag("weighted", self.weighted)

    @property
    def stochastic(self) -> bool:
        return self.pattern in ("per_call", "per_row")

    def plan(self, x: Tensor, call: Call) -> Assignment | Identity:
        if int(call.grid.tokens * self.ratio) == 0:
            return Identity()
        window = as_window(self.window)
        check_cells(window, call.grid)
        return merge_into(self._offset(x, call, window), x, call.grid, self)

    def _offset(self, x: Tensor, call: Call, window: Window) -> Tensor:
        """Position of each cell's destination: -> (B, T), or (1, T) where all rows have the same."""
        cells = window.cells(call.grid).tokens
        key = torch.zeros(1, dtype=torch.int64, device=x.device) if call.draw_key is None else call.draw_key
        if not self.stochastic:
            key = key[:1].clamp(max=0)  # zero, but not a constant: TorchInductor fails on long sums of those
        if self.pattern == "corner":
            return key[:, None].expand(1, cells)
        site = 0 if self.pattern == "fixed" else call.site
        if self.pattern == "per_row":
            key = branch(key, arange(x.shape[0], x.device) if call.member is None else call.member)
        return draw_bits(self.seed, key, site, cells) % window.tokens

"""SiTo: similarity-based token pruning (Zhang et al., AAAI 2025)."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from bigain.operators.base import (
    OPERATORS,
    Call,
    as_window,
    check_cells,
    check_flag,
    check_ratio,
    check_seed,
    plain_fields,
)
from bigain.tokens.draws import draw_normal
from bigain.tokens.grid import split_tokens, window_partition
from bigain.tokens.matching import Match, merge_most_similar, unit
from bigain.tokens.plans import Assignment, Identity, assign
from bigain.tokens.precision import sum_dtype


@OPERATORS.register("sito")
@dataclass(frozen=True)
class SiTo:
    """SiTo: tokens most similar to a base token are pruned, and restored as copies of the most similar kept token.

    In each cell the token most similar to all others (plus noise) is a base token; the fraction `ratio` of tokens
    most similar to a base token is pruned.
    """

    data_dependent: ClassVar[bool] = True
    reduces_queries: ClassVar[bool] = True

    ratio: float
    noise: float = 0.1
    seed: int = 0
    window: int | tuple[int, int] = 2
    weighted: bool = False

    def __post_init__(self) -> None:
        plain_fields(self)
        check_ratio(self.ratio, self.window)
        check_seed(self.seed)
        check_flag("weighted", self.weighted)
        if isinstance(self.noise, bool) or not isinstance(self.noise, Real) or not 0 <= self.noise < math.inf:
            raise ValueError(f"noise must be a number of at least 0, got {self.noise!r}")

    @property
    def stochastic(self) -> bool:
        return self.noise > 0

    def plan(self, x: Tensor, call: Call) -> Assignment | Identity:
        grid, window = call.grid, as_window(self.window)
        removed = int(grid.tokens * self.ratio)
        if removed == 0:
            return Identity()
        check_cells(window, grid)
        x = unit(x)
        similarity = x @ x.transpose(1, 2)
        score = similarity.sum(-1, dtype=sum_dtype(x.dtype))
        if self.noise > 0:
            key = call.draw_key if call.draw_key is not None else torch.zeros(1, dtype=torch.int64, device=x.device)
            score = score + self.noise * draw_normal(self.seed, key, call.site, grid.tokens)
        sources, bases = split_tokens(window_partition(score, grid, window).argmax(-1), grid, window, x.shape[0])

        # similarity to bases only, for all tokens: the others are masked, not gathered
        is_base = torch.zeros(score.shape, dtype=torch.bool, device=x.device).scatter(1, bases, True)
        to_base = similarity.masked_fill(~is_base[:, None], -torch.inf).amax(-1)
        value = to_base.gather(1, sources)
        pruned = merge_most_similar(grid.tokens, Match(sources, value, torch.full_like(sources, -1)), removed)
        gone = pruned < 0
        nearest_kept = similarity.masked_fill(gone[:, None], -torch.inf).argmax(-1)
        target = torch.where(gone, nearest_kept, pruned)
        return assign(target, removed, prune=True, weighted=self.weighted)

"""Interpolate–extrapolate KV down-sampling (IE-KVD) and its two ends, ToDo and average pooling."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from torch import Tensor

from bigain.defaults import NUM_TRAIN_TIMESTEPS
from bigain.operators.base import OPERATORS, Call, check_factor, plain_fields
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Identity, Pooled


@OPERATORS.register("kv_downsample")
@dataclass(frozen=True)
class KVDownsample:
    """IE-KVD: keys and values from a `factor` times coarser grid, alpha · nearest + (1 − alpha) · average (eq. 8).

    A pair (start, end) is the linear schedule over t of each sample: `start` at t = 999, where there is most noise (and
    at t = 1000, which flow models have), `end` at t = 0.
    """

    data_dependent: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    reduces_queries: ClassVar[bool] = False

    factor: int = 2
    alpha: float | tuple[float, float] = 0.9

    def __post_init__(self) -> None:
        plain_fields(self)
        check_factor(self.factor)
        ends = self.alpha if isinstance(self.alpha, tuple) else (self.alpha, self.alpha)
        numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in ends)
        if len(ends) != 2 or not numbers or not all(map(math.isfinite, ends)):
            raise ValueError(f"alpha must be a number or a pair (at high noise, at low noise), got {self.alpha!r}")

    def plan(self, x: Tensor, call: Call) -> Pooled | Identity:
        if not isinstance(self.alpha, tuple):
            return pool(call.grid, self.factor, float(self.alpha))
        if call.t is None:
            raise ValueError(f"alpha={self.alpha} is a schedule over t, but the model was called without a timestep")
        start, end = self.alpha
        share = (call.t.float() / (NUM_TRAIN_TIMESTEPS - 1)).clamp_max(1)
        return pool(call.grid, self.factor, (start * share + end * (1 - share)).view(-1, 1, 1))


@dataclass(frozen=True)
class Pooling:
    """What the two ends of IE-KVD share."""

    data_dependent: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    reduces_queries: ClassVar[bool] = False
    nearest: ClassVar[float]

    factor: int = 2

    def __post_init__(self) -> None:
        plain_fields(self)
        check_factor(self.factor)

    def plan(self, x: Tensor, call: Call) -> Pooled | Identity:
        return pool(call.grid, self.factor, self.nearest)


@OPERATORS.register("todo")
@dataclass(frozen=True)
class ToDo(Pooling):
    """Token down-sampling (Smith et al., 2024): keys and values from the nearest token of a coarser grid."""

    nearest = 1.0


@OPERATORS.register("avg_pool")
@dataclass(frozen=True)
class AvgPool(Pooling):
    """Keys and values averaged over each cell of a coarser grid."""

    nearest = 0.0


def pool(grid: Grid, factor: int, alpha: Tensor | float) -> Pooled | Identity:
    """A grid `factor` times coarser, rounded down."""
    if factor == 1:
        return Identity()
    coarse = Grid(grid.height // factor, grid.width // factor)
    if coarse.tokens == 0:
        raise ValueError(
            f"factor must be at most {min(grid)} on a grid of {grid} tokens, got {factor}; use a smaller factor, "
            "or finer sites with where="
        )
    return Pooled(grid, coarse, alpha)

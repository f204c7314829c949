"""Plans: an operator's decision for one call, as data that can be applied, undone, shared and counted."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from bigain.tokens.constants import arange, constant
from bigain.tokens.grid import Grid
from bigain.tokens.precision import sum_dtype, widen
from bigain.tokens.rotary import Rotation
from bigain.tokens.scores import as_maps


class Plan(Protocol):
    """`unmerge(attention(queries(x), context(x)))`; a context of None means self-attention."""

    def queries(self, x: Tensor) -> Tensor:
        """(B, N, C) -> (B, M, C)."""

    def context(self, x: Tensor) -> Tensor | None:
        """(B, N, C) -> (B, K, C), or None where keys and values come from the queries."""

    def key_bias(self, x: Tensor) -> Tensor | None:
        """Bias added to the attention logits of each key: (B, N, C) -> (B, 1, M), or None."""

    def places(self, device: torch.device) -> "Places":
        """Which tokens the queries and the keys stand for, in rotary positions and masks."""

    def positions(self, rotation: Rotation) -> tuple[Rotation, Rotation]:
        """The rotary positions of the queries and of the keys."""

    def unmerge(self, y: Tensor) -> Tensor:
        """(B, M, C) -> (B, N, C)."""


class Places(NamedTuple):
    """The tokens that queries (B, M) and keys (B, K) stand for; None is all of them, in order."""

    queries: Tensor | None
    keys: Tensor | None

    def positions(self, rotation: Rotation) -> tuple[Rotation, Rotation]:
        """The rotary positions of those tokens."""
        queries, keys = (rotation if tokens is None else rotation.take(tokens) for tokens in self)
        return queries, keys


class Identity(NamedTuple):
    """Nothing to do: ratio 0, factor 1."""

    def queries(self, x: Tensor) -> Tensor:
        return x

    def context(self, x: Tensor) -> Tensor | None:
        return None

    def key_bias(self, x: Tensor) -> Tensor | None:
        return None

    def places(self, device: torch.device) -> Places:
        return Places(None, None)

    def positions(self, rotation: Rotation) -> tuple[Rotation, Rotation]:
        return rotation, rotation

    def unmerge(self, y: Tensor) -> Tensor:
        return y


class Assignment(NamedTuple):
    """Every token belongs to one group and is represented by it.

    `group` (B, N) is the position of a token's group in the shorter sequence, `size` (B, M) counts its tokens. `order`
    (B, N) lists the tokens group by group, from `start` (B, M) on. `target` (B, N) is the token that represents each.
    `keep` (B, M) is the token that stands for a group when the others are pruned, or None when they are averaged.
    """

    group: Tensor
    size: Tensor
    order: Tensor
    start: Tensor
    target: Tensor
    keep: Tensor | None = None
    weighted: bool = False

    def queries(self, x: Tensor) -> Tensor:
        if self.keep is not None:
            return gather_tokens(x, self.keep)
        order, start = (flat_index(index, x.shape[1]) for index in (self.order, self.start))
        # not in half precision: a group may hold thousands of tokens; and not index_add, which takes thrice the time
        total = F.embedding_bag(order, widen(x.flatten(0, 1)), start, mode="sum")
        return (total / self.size.view(-1, 1)).view(*self.size.shape, -1).to(x.dtype)

    def context(self, x: Tensor) -> Tensor | None:
        return None

    def key_bias(self, x: Tensor) -> Tensor | None:
        return self.size.to(sum_dtype(x.dtype)).log()[:, None].to(x.dtype) if self.weighted else None

    def places(self, device: torch.device) -> Places:
        """Each group stands where the token stands that the others were merged into."""
        kept = survivors(self.target, self.size.shape[1]) if self.keep is None else self.keep
        return Places(kept, kept)

    def positions(self, rotation: Rotation) -> tuple[Rotation, Rotation]:
        return self.places(rotation.cos.device).positions(rotation)

    def unmerge(self, y: Tensor) -> Tensor:
        return gather_tokens(y, self.group)


def assign(target: Tensor, removed: int, *, prune: bool = False, weighted: bool = False) -> Assignment:
    """The groups of a map "token i is represented by token target[i]"; `removed` tokens do not represent themselves.

    (B, N) -> Assignment. Survivors are numbered in the order of the sequence by a running sum, so that no shape
    depends on data.
    """
    rows, tokens = target.shape
    groups = tokens - removed
    all_tokens = arange(tokens, target.device)
    survives = target == all_tokens
    slot = survives.cumsum(1) - 1
    group = slot.gather(1, target)
    size = torch.zeros((rows, groups), dtype=torch.int64, device=target.device)
    size = size.scatter_add_(1, group, torch.ones_like(group))
    order, start = group.argsort(dim=1, stable=True), size.cumsum(1) - size
    keep = survivors(target, groups) if prune else None
    return Assignment(group, size, order, start, target, keep, weighted)


def survivors(target: Tensor, groups: int) -> Tensor:
    """The tokens that represent themselves, in the order of the sequence: (B, N) -> (B, M)."""
    rows, tokens = target.shape
    all_tokens = arange(tokens, target.device)
    survives = target == all_tokens
    # the others all write to one extra slot that is cut off
    slot = torch.where(survives, survives.cumsum(1) - 1, groups)
    found = torch.zeros((rows, groups + 1), dtype=torch.int64, device=target.device)
    return found.scatter(1, slot, all_tokens.expand(rows, tokens))[:, :groups]


class Pooled(NamedTuple):
    """Keys and values from a coarser grid: alpha · nearest + (1 − alpha) · average of each cell, eq. (8).

    The cells are those of adaptive pooling, [floor(i·H/h), ceil((i+1)·H/h)): they cover the grid, contain their
    nearest token, and are the plain s x s cells where s divides the grid. `alpha` is a number or (B, 1, 1).
    """

    grid: Grid
    coarse: Grid
    alpha: Tensor | float

    def queries(self, x: Tensor) -> Tensor:
        return x

    def context(self, x: Tensor) -> Tensor | None:
        maps = as_maps(x, self.grid)
        if isinstance(self.alpha, float) and self.alpha in (0.0, 1.0):
            pooled = self._nearest(maps) if self.alpha else self._average(maps)
            return pooled.flatten(2).transpose(1, 2)
        nearest, average = (m.flatten(2).transpose(1, 2) for m in (self._nearest(maps), self._average(maps)))
        alpha = self.alpha if isinstance(self.alpha, float) else self.alpha.to(x.dtype)
        return average + alpha * (nearest - average)

    def key_bias(self, x: Tensor) -> Tensor | None:
        return None

    def places(self, device: torch.device) -> Places:
        return Places(None, nearest_tokens(self.grid, self.coarse, device))

    def positions(self, rotation: Rotation) -> tuple[Rotation, Rotation]:
        """Pooled keys stand at the centres of their cells."""
        return rotation, rotation.centres(self.grid, self.coarse)

    def unmerge(self, y: Tensor) -> Tensor:
        return y

    def _nearest(self, maps: Tensor) -> Tensor:
        return F.interpolate(maps, size=(self.coarse.height, self.coarse.width), mode="nearest-exact")

    def _average(self, maps: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(maps, (self.coarse.height, self.coarse.width))


class Selected(NamedTuple):
    """Keys and values from chosen tokens: `tokens` (B, K)."""

    tokens: Tensor

    def queries(self, x: Tensor) -> Tensor:
        return x

    def context(self, x: Tensor) -> Tensor | None:
        return gather_tokens(x, self.tokens)

    def key_bias(self, x: Tensor) -> Tensor | None:
        return None

    def places(self, device: torch.device) -> Places:
        return Places(None, self.tokens)

    def positions(self, rotation: Rotation) -> tuple[Rotation, Rotation]:
        return self.places(rotation.cos.device).positions(rotation)

    def unmerge(self, y: Tensor) -> Tensor:
        return y


@constant
def nearest_tokens(grid: Grid, coarse: Grid, device: torch.device) -> Tensor:
    """The token in the middle of each cell, as in nearest-exact interpolation: () -> (1, h·w)."""
    cells = (torch.arange(coarse[axis], device=device) for axis in range(2))
    rows, columns = (cell.add(0.5).mul(grid[axis] / coarse[axis]).long() for axis, cell in enumerate(cells))
    return (rows[:, None] * grid.width + columns).view(1, -1)


def flat_index(index: Tensor, length: int) -> Tensor:
    """Indices into sequences of a length -> indices into their concatenation: (B, N) -> (B·N,)."""
    first = arange(index.shape[0], index.device)[:, None] * length
    return (index + first).view(-1)


def gather_tokens(x: Tensor, index: Tensor) -> Tensor:
    """x[b, index[b, i]]: (B, N, C), (B, M) -> (B, M, C). Whole rows move, so this beats a gather."""
    picked = x.flatten(0, 1).index_select(0, flat_index(index, x.shape[1]))
    return picked.view(*index.shape, x.shape[-1])


def expand_plan(plan: Plan, rows: Tensor) -> Plan:
    """The plan of few rows for a larger batch: row i of the batch follows row rows[i] of the plan."""
    fields: Any = plan
    return type(plan)(*(value.index_select(0, rows) if isinstance(value, Tensor) else value for value in fields))

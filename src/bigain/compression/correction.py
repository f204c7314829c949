"""Group correction: the error that compression makes on the mean row of a group is taken out of all its rows.

With F a compressed module, M and U merging and unmerging by the plan of a group, and m the mean of the group's rows:

    y_c = U F(M x_c) + [ F(m) - U F(M m) ]

The mean rows join the batch, so that U F(M m) costs one more row a group; F(m) is one dense call for all groups. It
comes before the plan, so that tokens go together which are alike in m and in F(m). A group of one row is its own mean,
and gets the dense output.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bigain.models.rows import RowGroups, SiteCache
from bigain.tokens.plans import Plan, expand_plan
from bigain.tokens.precision import widen


class Correction(NamedTuple):
    """The correction of one call of a site: its groups, where it is kept, and F(m) where it is made in this call."""

    groups: RowGroups
    cell: SiteCache
    dense: tuple[Tensor, ...] | None  # (G, N, C) for the image and, where there is one, (G, L, C) for the text

    def apply(self, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """(B + G, N, C) with the mean rows, or (B, N, C) -> (B, N, C), for each part of the output."""
        rows = self.groups.rows.shape[0]
        if self.dense is not None:
            pairs = zip(self.dense, parts, strict=True)
            self.cell.correction = tuple(dense - part[rows:] for dense, part in pairs)
        corrections: Any = self.cell.correction
        pairs = zip(corrections, parts, strict=True)
        return tuple(error.index_select(0, self.groups.rows).add_(part[:rows]) for error, part in pairs)


def group_means(x: Tensor, groups: RowGroups) -> Tensor:
    """The mean of each group's planning rows: (B, ...) -> (G, ...)."""
    wide, shape = widen(x), (-1, *[1] * (x.ndim - 1))
    weight = wide.new_ones(x.shape[0])
    if groups.planning_rows is not None:
        weight = groups.planning_rows.to(wide.dtype)
        wide = wide * weight.view(shape)
    total = wide.new_zeros((groups.inputs, *x.shape[1:])).index_add_(0, groups.rows, wide)
    size = wide.new_zeros(groups.inputs).index_add_(0, groups.rows, weight)
    return (total / size.clamp_min_(1).view(shape)).to(x.dtype)


def join_plan(plan: Plan, groups: RowGroups) -> Plan:
    """A plan for the rows of a batch and then the mean of each group, which follows the plan of its first row."""
    rows = torch.arange(groups.rows.shape[0], device=groups.rows.device)
    return expand_plan(plan, torch.cat([rows, first_rows(groups)]))


def first_rows(groups: RowGroups) -> Tensor:
    """The first row of each group: -> (G,)."""
    rows = torch.arange(groups.rows.shape[0], device=groups.rows.device)
    return rows.new_zeros(groups.inputs).scatter_reduce(0, groups.rows, rows, "amin", include_self=False)


def enough_rows(once: float, saved: float) -> int | None:
    """The smallest group whose rows each save more than their part of what a group costs once; None for no saving."""
    return None if saved <= 0 else math.floor(once / saved) + 1

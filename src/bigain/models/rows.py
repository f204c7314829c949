"""Which rows of a batch share a noisy input, declared by the caller of a model."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bigain.tokens.plans import Plan


class SiteCache:
    """What a site shares with later calls for more rows of the same inputs, and the cache of the next site.

    A chain, not a table by names of sites: a compiler would make one graph per name.
    """

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.correction: tuple[Tensor, ...] | None = None
        self.next: SiteCache | None = None


class RowGroups(NamedTuple):
    """Rows of a batch with the same noisy input under different conditions: row i has input rows[i] of `inputs`.

    With `groups="input"`, rows of one input share a plan. `planning_rows` (B,) selects the rows it is made from; by
    default all. If the rows of an input come in several calls, pass the same dict as `cache` to all of them, and they
    share the plans and corrections of the first. With `keys` (inputs,), int64, what a stochastic operator draws depends
    on the key of a row's input, not on the number of earlier passes; `members` (B,) tells the rows of an input apart.
    `guidance` says that the rows of an input are the halves of classifier-free guidance, not classes to compare.
    """

    rows: Tensor
    inputs: int
    planning_rows: Tensor | None = None
    cache: dict[str, SiteCache] | None = None
    keys: Tensor | None = None
    members: Tensor | None = None
    guidance: bool = False


def take_groups(groups: RowGroups, rows: Tensor) -> RowGroups:
    """The groups that some rows of a batch belong to, for these rows: `rows` (M,) are their numbers.

    The rest of a group must be among the rows, or its plan would depend on the batch.
    """
    kept, numbers = groups.rows[rows].unique(return_inverse=True)
    if int(torch.isin(groups.rows, kept).sum()) != rows.shape[0]:
        raise ValueError("rows that share a plan must have one timestep, because when= tells rows apart by theirs")
    cache: Any = groups.cache
    return RowGroups(
        rows=numbers,
        inputs=kept.shape[0],
        planning_rows=None if groups.planning_rows is None else groups.planning_rows[rows],
        cache=None if cache is None else cache.setdefault(f"inputs {kept.tolist()}", {}),
        keys=None if groups.keys is None else groups.keys[kept],
        members=None if groups.members is None else groups.members[rows],
        guidance=groups.guidance,
    )


class Current(threading.local):
    """What holds for the model calls of this thread; Dynamo cannot trace a ContextVar."""

    groups: RowGroups | None = None


CURRENT = Current()


def current_rows() -> RowGroups | None:
    """The declared rows of the current batch in this thread."""
    return CURRENT.groups


@contextmanager
def same_input(groups: RowGroups) -> Iterator[None]:
    """Declare which rows of a batch have the same noisy input, for models called inside the `with` block."""
    before, CURRENT.groups = CURRENT.groups, groups
    try:
        yield
    finally:
        CURRENT.groups = before

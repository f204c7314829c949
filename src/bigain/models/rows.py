"""Which rows of a batch belong together: said by the caller of a model, for whatever is attached to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor

from bigain.tokens.plans import Plan


class SiteCache:
    """What a site shares with later calls that have more rows of the same inputs, and the cache of the next site.

    A chain, not a table by names of sites, of which a compiler would make a graph for each name.
    """

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.correction: Tensor | None = None
        self.next: SiteCache | None = None


class RowGroups(NamedTuple):
    """Rows of a batch with the same noisy input under different conditions: row i has input rows[i] of `inputs`.

    A model that is compressed with `groups="input"` makes one plan for the rows of an input. `planning_rows` (B,) says
    which of them it is made from; by default all. Where the rows of an input come in several calls, hand all of them
    the same dict as `cache`, and they share the plans and corrections of the first. With `keys` (inputs,), int64, what
    a stochastic operator draws depends on the key of a row's input, not on how many passes went before; `members` (B,)
    tells the rows of an input apart.
    """

    rows: Tensor
    inputs: int
    planning_rows: Tensor | None = None
    cache: dict[str, SiteCache] | None = None
    keys: Tensor | None = None
    members: Tensor | None = None


class Current(threading.local):
    """What holds for the model calls of this thread; Dynamo cannot trace a ContextVar."""

    groups: RowGroups | None = None


CURRENT = Current()


def current_rows() -> RowGroups | None:
    """What was said of the rows of the batch that is being computed in this thread."""
    return CURRENT.groups


@contextmanager
def same_input(groups: RowGroups) -> Iterator[None]:
    """Tell the models called inside which rows of their batch have the same noisy input."""
    before, CURRENT.groups = CURRENT.groups, groups
    try:
        yield
    finally:
        CURRENT.groups = before

"""Which rows of a batch share a noisy input, declared by the caller of a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor

from bigain.tokens.plans import Plan


class PlanCache:
    """A shared plan, kept for later calls with more rows of the same inputs, and the cache of the next site.

    A chain, not a table by names of sites: a compiler would make one graph per name.
    """

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.next: PlanCache | None = None


class RowGroups(NamedTuple):
    """Rows of a batch with the same noisy input under different conditions: row i has input rows[i] of `inputs`.

    With `groups="input"`, rows of one input share a plan. `planning_rows` (B,) selects the rows it is made from; by
    default all. If the rows of an input come in several calls, pass the same dict as `cache` to all of them, and they
    share the plans of the first. With `keys` (inputs,), int64, what a stochastic operator draws depends on the key of a
    row's input, not on the number of earlier passes; `members` (B,) tells the rows of an input apart.
    """

    rows: Tensor
    inputs: int
    planning_rows: Tensor | None = None
    cache: dict[str, PlanCache] | None = None
    keys: Tensor | None = None
    members: Tensor | None = None


CURRENT: ContextVar[RowGroups | None] = ContextVar("row_groups", default=None)


def current_rows() -> RowGroups | None:
    """The declared rows of the current batch in this thread."""
    return CURRENT.get()


@contextmanager
def same_input(groups: RowGroups) -> Iterator[None]:
    """Declare which rows of a batch have the same noisy input, for models called inside the `with` block."""
    token = CURRENT.set(groups)
    try:
        yield
    finally:
        CURRENT.reset(token)

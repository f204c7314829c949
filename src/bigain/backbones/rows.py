"""Which rows of a batch belong together: said by the caller of a model, for whatever is attached to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor

from bigain.tokens.plan import Plan


class Kept:
    """A shared plan, kept for the passes that have more rows of the same inputs, and the next site's.

    A chain, not a table by names of sites, of which a compiler would make a graph for each name.
    """

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.next: Kept | None = None


class Alike(NamedTuple):
    """Rows of a batch with the same noisy input under different conditions: row i has input rows[i] of `inputs`.

    Plans are made from the rows that `speak`, or all, and kept for the calls that have more rows of these inputs.
    `keys` (inputs,) is what drawn patterns depend on instead of the number of the pass, and `members` (B,) tells the
    rows of an input apart.
    """

    rows: Tensor
    inputs: int
    speak: Tensor | None = None
    kept: dict[str, Kept] | None = None
    keys: Tensor | None = None
    members: Tensor | None = None


SAID = threading.local()


def current_rows() -> Alike | None:
    """What was said of the rows of the batch that is being computed in this thread."""
    return getattr(SAID, "alike", None)


@contextmanager
def same_input(
    rows: Tensor,
    inputs: int,
    speak: Tensor | None = None,
    kept: dict[str, Kept] | None = None,
    keys: Tensor | None = None,
    members: Tensor | None = None,
) -> Iterator[None]:
    """Tell the models called inside which rows of their batch have the same noisy input: (B,) numbers below `inputs`.

    A model that is compressed with `groups="input"` makes one plan for them. Where the rows of an input come in
    several calls, hand all of them the same dict as `kept`, and they share the plans of the first; `speak` (B,) tells
    which rows plans are made from. With `keys` (inputs,), int64, what an operator draws depends on the key of a row's
    input, not on how many passes went before; `members` (B,) tells the rows of an input apart.
    """
    before = current_rows()
    SAID.alike = Alike(rows, inputs, speak, kept, keys, members)
    try:
        yield
    finally:
        SAID.alike = before

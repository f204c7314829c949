"""Windows of timesteps in which compression acts, and which rows of a pass lie in them.

A window (low, high) holds the train timesteps from low to high. A timestep between two whole ones, as flow models have
them, counts as the lower one; t = 1000, where a flow begins, counts as 999.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from bigain.checks import whole
from bigain.defaults import NUM_TRAIN_TIMESTEPS

Window = tuple[int, int]
LAST = NUM_TRAIN_TIMESTEPS - 1


def check_window(when: Any) -> Window | None:
    """A window as two plain ints, or None for all timesteps."""
    if when is None:
        return None
    ends = tuple(map(whole, when)) if isinstance(when, Iterable) and not isinstance(when, str) else ()
    if len(ends) != 2 or None in ends:
        raise ValueError(
            f"when must be None or the first and last timestep in which the operator acts, such as (500, 999), "
            f"got {when!r}"
        )
    low, high = (int(end or 0) for end in ends)
    if not 0 <= low <= high:
        hint = f"; did you mean ({high}, {low})?" if 0 <= high < low else ""
        raise ValueError(f"when must be two timesteps of at least 0, the smaller one first, got {when!r}{hint}")
    return low, high


def holds(window: Window | None, t: float) -> bool:
    """Whether a timestep lies in a window; None holds all."""
    step = LAST if t == NUM_TRAIN_TIMESTEPS else math.floor(t)
    return window is None or window[0] <= step <= window[1]


def overlap(a: Window | None, b: Window | None) -> bool:
    """Whether two windows have a timestep in common; None holds all."""
    return a is None or b is None or (a[0] <= b[1] and b[0] <= a[1])


def values_of(t: Any, rows: int, scale: int) -> list[float]:
    """The timestep of each row of a batch, as numbers; `scale` train timesteps are one unit of `t`."""
    if isinstance(t, Tensor) and t.is_meta:
        raise RuntimeError("when= needs the values of timesteps, and tensors on the meta device have none")
    found = [float(value) * scale for value in torch.as_tensor(t).reshape(-1).tolist()]
    return found * rows if len(found) == 1 else found


def rows_inside(window: Window | None, timesteps: Sequence[float]) -> list[int]:
    """The rows of a batch whose timestep lies in the window."""
    return [row for row, t in enumerate(timesteps) if holds(window, t)]

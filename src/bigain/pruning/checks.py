"""Checks of the parameters of pruning methods."""

from numbers import Real
from typing import Any


def is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_between(name: str, value: Any, low: float, high: float) -> None:
    """A share; a number of per cent gets a hint."""
    if is_real(value) and low <= value < high:
        return
    hint = f"; did you mean {value / 100:g}?" if is_real(value) and 1 <= value < 100 * high else ""
    raise ValueError(f"{name} must be in [{low}, {high}), got {value!r}{hint}")

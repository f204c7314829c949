"""Checks of integer arguments and seeds, in one place."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any


def whole(value: object) -> int | None:
    """A value of any integer type, such as numpy's, as an int; None for everything else, including bools."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def plain_ints(value: Any) -> Any:
    """Integers, also inside a tuple, as plain ints, so that their repr can be parsed; other values unchanged."""
    if type(value) is tuple:
        return tuple(plain_ints(part) for part in value)
    number = whole(value)
    return value if number is None else number


def set_plain_ints(owner: object, names: Iterable[str]) -> None:
    """Turn the integers among these fields of a frozen dataclass into plain ints."""
    for name in names:
        object.__setattr__(owner, name, plain_ints(getattr(owner, name)))


def check_seed(seed: object, bits: int = 63) -> int:
    """A seed as an int. Floats and strings raise, because 1.5 or "3" would silently become another seed."""
    number = whole(seed)
    if number is None or not 0 <= number < 2**bits:
        raise ValueError(f"seed must be an int from 0 to 2**{bits} - 1, got {seed!r}")
    return number


def check_count(what: str, value: object, most: int | None = None) -> int:
    """An int of at least 1, and of at most `most`."""
    number = whole(value)
    if number is None or number < 1 or (most is not None and number > most):
        limits = "of at least 1" if most is None else f"from 1 to {most}"
        raise ValueError(f"{what} must be an int {limits}, got {value!r}")
    return number


def shortened(text: str) -> str:
    """A text, cut to 80 characters for an error."""
    return text if len(text) <= 80 else f"{text[:79]}…"

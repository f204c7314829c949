"""The operator protocol, shared checks, and spec strings."""

import dataclasses
import math
import numbers
from typing import Any, ClassVar, NamedTuple, Protocol

from torch import Tensor

from bigain.checks import check_seed as checked_seed
from bigain.checks import set_plain_ints, whole
from bigain.registry import NONE, Registry, call, miss, parse_call
from bigain.tokens.grid import Grid, Window
from bigain.tokens.plans import Identity, Plan
from bigain.tokens.scores import SCORERS


class Call(NamedTuple):
    """What an operator knows about a call besides its tokens."""

    grid: Grid
    t: Tensor | None = None  # (B,) timesteps, where the model was given any
    draw_key: Tensor | None = None  # what is drawn depends on it: (1,) number of the pass, (B,) of each row, or (1,) 0
    site: Tensor | int = 0  # number of the site, so that two sites draw differently
    member: Tensor | None = None  # (B,) tells rows apart that have the same key


class Operator(Protocol):
    """A frozen dataclass; its fields are its configuration and its spec string."""

    data_dependent: ClassVar[bool]  # the plan depends on the tokens, so rows of a group can share it
    reduces_queries: ClassVar[bool]  # the queries get fewer; otherwise only keys and values do

    @property
    def stochastic(self) -> bool:
        """Whether the plan depends on the number of the forward pass."""

    def plan(self, x: Tensor, call: Call) -> Plan:
        """(B, N, C) -> Plan."""


OPERATORS: Registry[type] = Registry("operator")


@dataclasses.dataclass(frozen=True)
class Nothing:
    """The operator `none`: no site is touched."""

    data_dependent: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    reduces_queries: ClassVar[bool] = False

    def plan(self, x: Tensor, call: Call) -> Plan:
        return Identity()


def parse(text: str) -> Any:
    """`gated_merge(ratio=0.7)` -> GatedMerge(ratio=0.7)."""
    name, args, kwargs = parse_call(text, "operator")
    if name == NONE and not args and not kwargs:
        return Nothing()
    if name not in OPERATORS:
        own = "Load your own with `bigain --load FILE COMMAND`, or import its module"
        raise ValueError(f"{miss('operator', name, OPERATORS)}. {own}")
    if not dataclasses.is_dataclass(OPERATORS[name]):
        cls = OPERATORS[name].__name__
        raise TypeError(f"operator {name!r} must be a dataclass; put @dataclass(frozen=True) above its class {cls}")
    return call(OPERATORS[name], name, args, kwargs)


def spec(operator: Any) -> str:
    """The string that `parse` turns into an equal operator: every field that is not at its default."""
    if isinstance(operator, Nothing):
        return NONE
    names = {cls: name for name, cls in OPERATORS.items()}
    if type(operator) not in names:
        raise TypeError(f"{no_operator(operator)}. Available: {', '.join(OPERATORS)}")
    shown = [
        f"{field.name}={literal(getattr(operator, field.name))!r}"
        for field in dataclasses.fields(operator)
        if getattr(operator, field.name) != field.default
    ]
    return f"{names[type(operator)]}({', '.join(shown)})"


def no_operator(value: Any) -> str:
    """The error text for something that is not an operator."""
    if any(value is cls for cls in OPERATORS.values()):
        return f"operator must be an instance, such as {value.__name__}(…), or a string, got the class {value.__name__}"
    return f"operator must be an instance or a string, got {value!r}"


def literal(value: Any) -> Any:
    """A plain Python value: numpy numbers and named tuples could not be parsed."""
    if isinstance(value, tuple):
        return tuple(literal(part) for part in value)
    return value.item() if hasattr(value, "item") else value


def as_window(window: int | tuple[int, int]) -> Window:
    """2 -> 2x2; (1, 2) -> one row, two columns."""
    return Window(window, window) if isinstance(window, int) else Window(*window)


def plain_fields(operator: Any) -> None:
    """Turn integers of any type, such as numpy's, into ints: call it first in an operator's `__post_init__`."""
    set_plain_ints(operator, (field.name for field in dataclasses.fields(operator)))


def check_ratio(ratio: float, window: int | tuple[int, int], name: str = "window") -> None:
    """Check a fraction of tokens to remove that cells of this size allow; `name` is the field with the size."""
    check_window(window, name)
    if isinstance(ratio, bool) or not isinstance(ratio, numbers.Real):
        raise TypeError(f"ratio must be a number in [0, 1), got {ratio!r}")
    if not 0 <= ratio < 1:
        meant = f"; did you mean {ratio / 100:g}?" if 5 <= ratio < 100 else ""
        raise ValueError(f"ratio must be in [0, 1), got {ratio}{meant}")
    cell = as_window(window)
    largest = 1 - 1 / cell.tokens
    cells, larger = ("cells", "a larger window") if name == "window" else (name, f"larger {name}")
    if ratio > largest:
        raise ValueError(
            f"ratio must be at most {math.floor(largest * 1e4) / 1e4} for {cells} of {cell}, in which one token stays, "
            f"got {ratio}; use a lower ratio or {larger}"
        )


def check_window(window: int | tuple[int, int], name: str = "window") -> None:
    sides = (window, window) if isinstance(window, int) else window
    pair = isinstance(sides, tuple) and len(sides) == 2 and all(whole(side) is not None for side in sides)
    if not pair or min(sides) < 1 or sides == (1, 1):
        raise ValueError(f"{name} must be an int of at least 2 or a pair (height, width), got {window!r}")


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(miss(what, value, choices))


def check_scorer(name: str) -> None:
    if name not in SCORERS:
        raise ValueError(miss("scorer", name, SCORERS))


def check_seed(seed: int) -> None:
    checked_seed(seed, bits=31)  # a product with it must stay below 2**63, see tokens/draws.py


def check_flag(what: str, value: bool) -> None:
    if type(value) is not bool:
        raise TypeError(f"{what} must be True or False, got {value!r}")


def check_factor(factor: int) -> None:
    if (whole(factor) or 0) < 1:
        raise ValueError(f"factor must be an int of at least 1, got {factor!r}")


def check_cells(window: Window, grid: Grid) -> None:
    if window.cells(grid).tokens == 0:
        raise ValueError(
            f"a grid of {grid} tokens has no whole cell of {window}; use a smaller window, or finer sites with where="
        )

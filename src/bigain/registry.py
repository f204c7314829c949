"""Registries of names, and calls written as strings: `gated_merge(ratio=0.7)`."""

import ast
import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")

NONE = "none"  # the operator that changes nothing


class Registry(Mapping[str, T], Generic[T]):
    """A read-only mapping that rejects duplicates and suggests names on a miss."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Register the decorated class or function under a name."""

        def add(item: T) -> T:
            if name in self._items:
                raise ValueError(f"the {self.kind} {name!r} is already registered")
            self._items[name] = item
            return item

        return add

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._items  # a list cannot be hashed

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise KeyError(miss(self.kind, name, self._items))
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


MOST_SHOWN = 40


def miss(kind: str, name: object, choices: "Mapping[str, Any] | list[str] | tuple[str, ...]") -> str:
    """The error text for an unknown name: the nearest name, then all of them."""
    folded = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(str(name).casefold(), folded, n=1)
    hint = f"Did you mean {folded[near[0]]!r}? " if near else ""
    shown = list(choices)[:MOST_SHOWN]
    more = f", and {len(choices) - len(shown)} more" if len(choices) > len(shown) else ""
    return f"unknown {kind} {name!r}. {hint}Available: {', '.join(shown)}{more}"


def parse_call(text: str, kind: str) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """`name(1, key="value")` or `name` -> ("name", (1,), {"key": "value"}); literals only."""
    if not isinstance(text, str):
        raise TypeError(f'the {kind} must be a string such as name(ratio=0.7, key="word"), got {text!r}')
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, (), {}
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise ValueError
        names = [keyword.arg for keyword in tree.keywords]
        if None in names or len(set(names)) < len(names):
            raise ValueError
        args = tuple(ast.literal_eval(arg) for arg in tree.args)
        kwargs = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords if keyword.arg}
    except (SyntaxError, ValueError, TypeError):
        raise ValueError(
            f'cannot read the {kind} {text!r}; write it as a call with plain values, like name(ratio=0.7, key="word")'
        ) from None
    return tree.func.id, args, kwargs


def call(make: Callable[..., T], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """Call what is registered as `name`; wrong arguments raise a ValueError that lists the parameters."""
    known = inspect.signature(make)
    for key in kwargs:
        if key not in known.parameters:
            raise ValueError(miss(f"{name} parameter", key, list(known.parameters)))
    try:
        bound = known.bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(f"{name} takes {takes(make)}: {error}") from None
    try:
        return make(*bound.args, **bound.kwargs)
    except TypeError as error:
        if isinstance(make, type):  # a dataclass checks its values, so the mistake is in the string
            raise ValueError(f"{name}: {error}") from error
        raise


def takes(make: Callable[..., Any]) -> str:
    """The parameters with their defaults: `ratio, window=2`."""
    parameters = inspect.signature(make).parameters.values()
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)

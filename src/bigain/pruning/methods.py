"""Pruning methods by name, and calls of them written as text."""

import dataclasses
from typing import Any

from bigain.registry import Registry, call, miss, parse_call

METHODS: Registry[Any] = Registry("pruning method")


def parse_method(method: Any) -> Any:
    """`"mosaic(sparsity=0.3)"` -> Mosaic(sparsity=0.3); instances as they are."""
    if not isinstance(method, str):
        if type(method) not in METHODS.values():
            raise TypeError(f'method must be a string such as "mosaic(sparsity=0.3)", got {method!r}')
        return method
    name, args, kwargs = parse_call(method, "pruning method")
    if name not in METHODS:
        raise ValueError(miss("pruning method", name, METHODS))
    return call(METHODS[name], name, args, kwargs)


def method_spec(method: Any) -> str:
    """The string that `parse_method` turns into an equal method: every field that is not at its default."""
    name = next(name for name, cls in METHODS.items() if cls is type(method))
    shown = [
        f"{field.name}={getattr(method, field.name)!r}"
        for field in dataclasses.fields(method)
        if getattr(method, field.name) != field.default
    ]
    return f"{name}({', '.join(shown)})"

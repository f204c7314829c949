"""Arguments of a forward call, by position or by name as they came."""

import inspect
from functools import partial
from typing import Any

from torch import nn


def takes_carrier(model: Any, carrier: str) -> bool:
    """Whether `forward` takes the carrier; not if it was replaced, for example by an exported program.

    What is bound to the model itself hands all arguments on to its own forward, as cache-dit's does.
    """
    replaced = vars(model).get("forward")
    if isinstance(replaced, partial) and any(value is model for value in replaced.args):
        return True
    return replaced is None or carrier in inspect.signature(replaced).parameters


def arguments_of(kind: type[nn.Module]) -> list[str]:
    """Names of the arguments of a class's forward, in order."""
    return list(inspect.signature(kind.forward).parameters)[1:]


def argument_of(names: list[str], name: str, args: Any, kwargs: Any) -> Any:
    """An argument of a call, by position or by name as it came; None if it was left out."""
    place = names.index(name)
    return args[place] if len(args) > place else kwargs.get(name)


def put(name: str, value: Any, args: Any, kwargs: Any, names: list[str]) -> tuple[Any, Any]:
    """Arguments of a call with one of them replaced, by position or by name as it came."""
    place = names.index(name)
    if len(args) > place:
        return (*args[:place], value, *args[place + 1 :]), kwargs
    return args, {**kwargs, name: value}

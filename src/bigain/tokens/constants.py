"""Tensors that depend on shapes only: made once for each shape and device, not in every call."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import torch
from torch import Tensor

P = ParamSpec("P")

KEPT = 256  # of one kind; a model has a handful of grids


def constant(make: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Cache what a function of hashable arguments returns. Do not write into it.

    A compiler traces the function itself and folds it. Tensor subclasses, such as a tracer's fake tensors, are not
    cached, and what is cached works in any mode, with or without gradients.
    """
    kept: dict[object, Tensor] = {}

    @wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        if torch.compiler.is_compiling():
            return make(*args, **kwargs)
        key = (args, tuple(kwargs.items()))
        found = kept.get(key)
        if found is None:
            with torch.inference_mode(False):
                found = make(*args, **kwargs)
            if type(found) is Tensor:
                if len(kept) >= KEPT:
                    kept.clear()
                kept[key] = found
        return found

    return get


@constant
def arange(count: int, device: torch.device) -> Tensor:
    """0, 1, …, count - 1: () -> (count,)."""
    return torch.arange(count, device=device)

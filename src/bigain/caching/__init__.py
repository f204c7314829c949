"""Caches for generation: deep blocks give what they gave in an earlier sampler step."""

import sys
from collections.abc import Callable
from typing import Any

from torch import nn

from bigain.caching.methods import CACHES, Cache, Every, FirstBlock, cache_spec, parse_cache
from bigain.models.caches import Steps, cache_of, steps_of
from bigain.models.family import family_of, find_model

__all__ = ["CACHES", "Cache", "CacheHandle", "Every", "FirstBlock", "cache", "cache_spec", "parse_cache", "skipping"]


Attach = Callable[[nn.Module, Steps], Callable[[], None]]


class CacheHandle:
    """What `cache` returns: use it as a context manager, or call `remove()` when done."""

    def __init__(self, model: nn.Module, method: Cache, attach: Attach | None = None) -> None:
        self.method = method
        self._model = model
        self._steps = steps = Steps(cache_spec(method), model, family_of(model))
        self._undo = (attach or method.attach)(model, steps)
        self._hooks = [
            model.register_forward_pre_hook(steps.enter, with_kwargs=True),
            model.register_forward_hook(steps.leave),
        ]

    @property
    def computed(self) -> int:
        """How many passes computed everything."""
        return self._steps.computed

    @property
    def reused(self) -> int:
        """How many passes took outputs of an earlier step."""
        return self._steps.reused

    def reset(self) -> None:
        """The next pass computes everything; passes are counted anew."""
        self._steps.forget()
        self._steps.computed = self._steps.reused = 0

    def remove(self) -> None:
        """Take the cache off. Calling it again does nothing."""
        if not self._hooks:
            return
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._undo()

    def __enter__(self) -> "CacheHandle":
        if not self._hooks:
            raise RuntimeError("this handle was removed; call cache again")
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        state = f"{self.computed} passes computed, {self.reused} reused" if self._hooks else "removed"
        return f"<{cache_spec(self.method)} on {type(self._model).__name__}, {state}>"


def cache(model_or_pipeline: Any, method: Cache | str) -> CacheHandle:
    """Let the deep blocks of a model give what they gave in an earlier sampler step.

    `method` is "every(k=3)", which computes them in every third step, "first_block(threshold=0.1)", which is diffusers'
    FirstBlockCache, or an `Every` or a `FirstBlock`. A sampling run begins anew where the timestep does not fall.

    A cache generates only: the trials of a classifier have no earlier step, and `DiffusionClassifier` refuses it. With
    `compress` it works in either order.
    """
    model, chosen = find_model(model_or_pipeline), as_cache(method)
    family_of(model)  # raises for a model that is not known
    there = cache_of(model)
    if there is not None:
        own = "remove that handle first" if steps_of(model) is not None else "call disable_cache() first"
        raise ValueError(f"{type(model).__name__} has a cache already, {there}; {own}")
    return CacheHandle(model, chosen)


def skipping(model: nn.Module, method: Cache) -> CacheHandle:
    """As `cache`, but each pass after the first reuses all that the method may: for counting FLOPs."""
    from bigain.models.kept import keep  # needs diffusers

    return CacheHandle(model, method, lambda model, steps: keep(model, method.blocks(model), steps, sys.maxsize))


def as_cache(method: Cache | str) -> Cache:
    if isinstance(method, str):
        return parse_cache(method)
    cache_spec(method)  # raises for anything else
    return method

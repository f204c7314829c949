"""Methods of caching as text: every(k=3), first_block(threshold=0.1)."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Protocol

from torch import nn

from bigain.checks import set_plain_ints, whole
from bigain.models.caches import Steps
from bigain.registry import Registry, call, miss, parse_call


class Cache(Protocol):
    """A frozen dataclass; its fields are its configuration and its spec string."""

    data_dependent: ClassVar[bool]  # whether the images decide which steps compute everything

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        """The blocks that a step may skip."""

    def attach(self, model: nn.Module, steps: Steps) -> Callable[[], None]:
        """Put it on a model; -> a function that takes it off."""


CACHES: Registry[type] = Registry("cache")


@CACHES.register("every")
@dataclass(frozen=True)
class Every:
    """Compute everything in every k-th sampler step only.

    In the other steps a U-Net takes the output of its `depth` coarsest levels from the last computed step, as DeepCache
    does, and a transformer what its `depth` middle blocks added. By default all levels but the finest, and all blocks
    but the first and the last.
    """

    data_dependent: ClassVar[bool] = False

    k: int
    depth: int | None = None

    def __post_init__(self) -> None:
        set_plain_ints(self, ("k", "depth"))
        if (whole(self.k) or 0) < 2:
            raise ValueError(f"k must be an int of at least 2, got {self.k!r}; 1 would be no cache")
        if self.depth is not None and (whole(self.depth) or 0) < 1:
            raise ValueError(f"depth must be an int of at least 1, got {self.depth!r}")

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        from bigain.models.kept import deep_blocks  # needs diffusers

        return deep_blocks(model, self.depth, cache_spec(self))

    def attach(self, model: nn.Module, steps: Steps) -> Callable[[], None]:
        from bigain.models.kept import keep

        return keep(model, self.blocks(model), steps, self.k)


@CACHES.register("first_block")
@dataclass(frozen=True)
class FirstBlock:
    """diffusers' FirstBlockCache: compute everything where the first block's output has changed enough.

    `threshold` is the relative change of what the first block adds, as the mean over the batch, below which the other
    blocks are skipped and what they added before is added again. So it depends on which images are in a batch.
    """

    data_dependent: ClassVar[bool] = True

    threshold: float = 0.05

    def __post_init__(self) -> None:
        number = isinstance(self.threshold, Real) and not isinstance(self.threshold, bool)
        if not number or not 0 < self.threshold < math.inf:
            raise ValueError(f"threshold must be a number above 0, got {self.threshold!r}")

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        from bigain.models.kept import transformer_blocks  # needs diffusers

        return transformer_blocks(model, cache_spec(self))[1:]

    def attach(self, model: nn.Module, steps: Steps) -> Callable[[], None]:
        from bigain.models.kept import first_block

        self.blocks(model)  # raises where it cannot act
        return first_block(model, self.threshold, steps)


def parse_cache(text: str) -> Any:
    """`every(k=3)` -> Every(k=3)."""
    name, args, kwargs = parse_call(text, "cache")
    if name not in CACHES:
        raise ValueError(miss("cache", name, CACHES))
    return call(CACHES[name], name, args, kwargs)


def cache_spec(method: Any) -> str:
    """The string that `parse_cache` turns into an equal cache."""
    names = {cls: name for name, cls in CACHES.items()}
    if type(method) not in names:
        raise TypeError(f"cache must be a string such as 'every(k=3)', got {method!r}. Available: {', '.join(CACHES)}")
    values = ((field, getattr(method, field.name)) for field in dataclasses.fields(method))
    shown = [f"{field.name}={value!r}" for field, value in values if value != field.default]
    return f"{names[type(method)]}({', '.join(shown)})"

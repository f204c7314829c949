"""Faster diffusion models that still generate and still classify."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigain.caching import CacheHandle, Every, FirstBlock, cache
    from bigain.classify.classifier import DiffusionClassifier
    from bigain.compression import Compression, Handle, compress, restore, sites
    from bigain.generation import Sampling, generate
    from bigain.loading import load
    from bigain.models import Site, Where
    from bigain.operators import (
        AvgPool,
        BlockMerge,
        GatedMerge,
        KVDownsample,
        KVSelect,
        SiTo,
        ToDo,
        ToMA,
        ToMe,
        parse,
        spec,
    )
    from bigain.profile import TimestepProfile

__version__ = "0.1.0"
__all__ = [
    "AvgPool",
    "BlockMerge",
    "CacheHandle",
    "Compression",
    "DiffusionClassifier",
    "Every",
    "FirstBlock",
    "GatedMerge",
    "Handle",
    "KVDownsample",
    "KVSelect",
    "Sampling",
    "SiTo",
    "Site",
    "TimestepProfile",
    "ToDo",
    "ToMA",
    "ToMe",
    "Where",
    "cache",
    "compress",
    "generate",
    "load",
    "parse",
    "restore",
    "sites",
    "spec",
]

PLACES = {
    "CacheHandle": "bigain.caching",
    "Compression": "bigain.compression",
    "DiffusionClassifier": "bigain.classify.classifier",
    "Every": "bigain.caching",
    "FirstBlock": "bigain.caching",
    "Handle": "bigain.compression",
    "Sampling": "bigain.generation",
    "Site": "bigain.models",
    "TimestepProfile": "bigain.profile",
    "Where": "bigain.models",
    "cache": "bigain.caching",
    "compress": "bigain.compression",
    "generate": "bigain.generation",
    "load": "bigain.loading",
    "restore": "bigain.compression",
    "sites": "bigain.compression",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `bigain --help` does not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'bigain' has no attribute {name!r}")
    value = getattr(import_module(PLACES.get(name, "bigain.operators")), name)
    globals()[name] = value  # next time there is no call of __getattr__
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

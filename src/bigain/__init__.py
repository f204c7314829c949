"""Faster diffusion models that still generate and still classify."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        ToMe,
        parse,
        spec,
    )
    from bigain.profile import TimestepProfile
    from bigain.pruning import prune

__version__ = "0.1.0"
__all__ = [
    "AvgPool",
    "BlockMerge",
    "Compression",
    "DiffusionClassifier",
    "GatedMerge",
    "Handle",
    "KVDownsample",
    "KVSelect",
    "Sampling",
    "SiTo",
    "Site",
    "TimestepProfile",
    "ToDo",
    "ToMe",
    "Where",
    "compress",
    "generate",
    "load",
    "parse",
    "prune",
    "restore",
    "sites",
    "spec",
]

PLACES = {
    "Compression": "bigain.compression",
    "DiffusionClassifier": "bigain.classify.classifier",
    "Handle": "bigain.compression",
    "Sampling": "bigain.generation",
    "Site": "bigain.models",
    "TimestepProfile": "bigain.profile",
    "Where": "bigain.models",
    "compress": "bigain.compression",
    "generate": "bigain.generation",
    "load": "bigain.loading",
    "prune": "bigain.pruning",
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

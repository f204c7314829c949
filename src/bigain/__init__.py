"""Faster diffusion models that still generate and still classify."""

from typing import TYPE_CHECKING, Any

from bigain.backbones import Site, Where
from bigain.compress import Handle, compress, restore
from bigain.loading import load
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

if TYPE_CHECKING:
    from bigain.classify.classifier import DiffusionClassifier

__version__ = "0.1.0"
__all__ = [
    "AvgPool",
    "BlockMerge",
    "DiffusionClassifier",
    "GatedMerge",
    "Handle",
    "KVDownsample",
    "KVSelect",
    "SiTo",
    "Site",
    "ToDo",
    "ToMe",
    "Where",
    "compress",
    "load",
    "parse",
    "restore",
    "spec",
]


def __getattr__(name: str) -> Any:
    """The classifier is imported when it is asked for: it needs scipy and Pillow, which compressing does not."""
    if name == "DiffusionClassifier":
        from bigain.classify.classifier import DiffusionClassifier

        return DiffusionClassifier
    raise AttributeError(f"module 'bigain' has no attribute {name!r}")

"""Faster diffusion models that still generate and still classify."""

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

__version__ = "0.1.0"
__all__ = [
    "AvgPool",
    "BlockMerge",
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

"""What the families of transformers over patches share."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from bigain.models.family import Argument, native_size
from bigain.models.site import Kind, Site, Stream
from bigain.tokens.grid import Grid

SHARE = 12 / 28  # the paper compresses the first 12 of DiT-XL's 28 blocks


def early(found: list[Site]) -> Callable[[Site], bool]:
    """The paper's share of the blocks, from the first on."""
    blocks = len({site.block for site in found})
    return lambda site: site.index < math.ceil(blocks * SHARE)


def patch_grid(model: Any, argument: Argument) -> Grid:
    """The grid of patches of latents (B, C, H, W)."""
    latents: Tensor = argument("hidden_states")
    patch = model.config["patch_size"]
    return Grid(latents.shape[-2] // patch, latents.shape[-1] // patch)


def native_tokens(model: Any, patch: int) -> int:
    return math.prod(side // patch for side in native_size(model))


class Blocks:
    """Collects the sites of a model, block by block in the order of its forward pass."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.index = -1
        self.block = ""
        self.sites: list[Site] = []

    def begin(self, name: str) -> None:
        self.index += 1
        self.block = name

    def add(self, name: str, module: Any, kind: Kind, part: str, stream: Stream | None = None) -> None:
        """A site of the current block."""
        place = f"{self.block}.{name}"
        self.sites.append(Site(place, module, kind, self.block, part, 1, self.index, self.tokens, stream))

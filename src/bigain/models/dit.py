"""Transformers over patches: DiT and PixArt."""

import math
from typing import Any

from torch import Tensor

from bigain.models.family import FAMILIES, Family
from bigain.models.site import Site, block_sites, native_size
from bigain.tokens.grid import Grid

SHARE = 12 / 28  # the paper compresses the first 12 of DiT-XL's 28 blocks


def sites(model: Any) -> list[Site]:
    found: list[Site] = []
    tokens = math.prod(side // model.config["patch_size"] for side in native_size(model))
    for index, block in enumerate(model.transformer_blocks):
        name = f"transformer_blocks.{index}"
        found.extend(block_sites(name, block, part="blocks", downsample=1, index=index, tokens=tokens))
    return found


def early(found: list[Site]) -> Any:
    blocks = len({site.block for site in found})
    return lambda site: site.index < math.ceil(blocks * SHARE)


def grid(model: Any, latents: Tensor) -> Grid:
    patch = model.config["patch_size"]
    return Grid(latents.shape[-2] // patch, latents.shape[-1] // patch)


def square_grid(model: Any, latents: Tensor) -> Grid:
    found = grid(model, latents)
    if found.height != found.width:
        raise ValueError(f"DiTTransformer2DModel needs square latents, got {latents.shape[-2]}x{latents.shape[-1]}")
    return found


for name, grid_of in (("DiTTransformer2DModel", square_grid), ("PixArtTransformer2DModel", grid)):
    FAMILIES.append(
        Family(
            models=(name,),
            latents="hidden_states",
            sites=sites,
            default=early,
            metric="module",
            grid=grid_of,
            spatial=False,
        )
    )

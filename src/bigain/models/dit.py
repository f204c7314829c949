"""Transformers over patches without joint attention: DiT, PixArt-α and PixArt-Σ."""

from typing import Any

import torch

from bigain.models.family import FAMILIES, Argument, Example, Family, Inputs
from bigain.models.site import Site, block_sites
from bigain.models.transformer import early, native_tokens, patch_grid
from bigain.tokens.grid import Grid


def sites(model: Any) -> list[Site]:
    found: list[Site] = []
    tokens = native_tokens(model, model.config["patch_size"])
    for index, block in enumerate(model.transformer_blocks):
        name = f"transformer_blocks.{index}"
        found.extend(block_sites(name, block, part="blocks", downsample=1, index=index, tokens=tokens))
    return found


def square_grid(model: Any, argument: Argument) -> Grid:
    check_square(*argument("hidden_states").shape[-2:])
    return patch_grid(model, argument)


def check_square(height: int, width: int) -> None:
    """diffusers makes something of other latents that has the wrong shape."""
    if height != width:
        raise ValueError(f"DiTTransformer2DModel needs square latents, got {height}x{width}")


def dit_inputs(example: Example) -> Inputs:
    config = example.model.config
    example.tokens(config["patch_size"])
    check_square(example.height, example.width)
    latents = example.random(config["in_channels"], example.height, example.width)
    t = example.timesteps()
    return Inputs((latents, t), {"class_labels": torch.zeros_like(t)})


def pixart_inputs(example: Example) -> Inputs:
    config = example.model.config
    example.tokens(config["patch_size"])
    latents = example.random(config["in_channels"], example.height, example.width)
    text = example.random(example.text_tokens, config["caption_channels"])
    added: dict[str, Any] = {"resolution": None, "aspect_ratio": None}
    return Inputs((latents, text, example.timesteps()), {"added_cond_kwargs": added})


for name, title, grid_of, inputs in (
    ("DiTTransformer2DModel", "DiT", square_grid, dit_inputs),
    ("PixArtTransformer2DModel", "PixArt-α, PixArt-Σ", patch_grid, pixart_inputs),
):
    FAMILIES.append(
        Family(
            models=(name,),
            sites=sites,
            default=early,
            grid=grid_of,
            inputs=inputs,
            title=title,
        )
    )

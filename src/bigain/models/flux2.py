"""FLUX.2: as FLUX.1, but a single block is one pair of matrices for attention and MLP."""

from typing import Any

import torch

from bigain.models.family import FAMILIES, Argument, Example, Family, Inputs
from bigain.models.flux import FIRST, PACKED, double_blocks, guidance, packed_inputs
from bigain.models.flux import grid as flux_grid
from bigain.models.packed import positions
from bigain.models.site import Site
from bigain.models.transformer import early
from bigain.tokens.grid import Grid


def sites(model: Any) -> list[Site]:
    found = double_blocks(model)
    for index, block in enumerate(model.single_transformer_blocks):
        found.begin(f"single_transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "single", FIRST)
    return found.sites


def grid(model: Any, argument: Argument) -> Grid:
    if argument("kv_cache_mode") is not None:
        raise ValueError("Flux2Transformer2DModel with kv_cache_mode has reference images, which cannot be compressed")
    return flux_grid(model, argument)


def inputs(example: Example) -> Inputs:
    axes = len(example.model.config["axes_dims_rope"])
    words = torch.zeros(example.text_tokens, axes)
    words[:, -1] = torch.arange(example.text_tokens)
    places = {"img_ids": positions(*example.tokens(PACKED), axes), "txt_ids": words}
    return Inputs((), packed_inputs(example) | places | {"guidance": guidance(example)})


FAMILIES.append(
    Family(
        models=("Flux2Transformer2DModel",),
        sites=sites,
        default=early,
        grid=grid,
        inputs=inputs,
        side=128,
        carrier="joint_attention_kwargs",
        block_carrier="joint_attention_kwargs",
        timesteps=1000,
        title="FLUX.2",
    )
)

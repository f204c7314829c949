"""FLUX.2: as FLUX.1, but a single block is one pair of matrices for attention and MLP."""

from typing import Any

import torch

from bigain.models.family import FAMILIES, Argument, Example, Family, Inputs
from bigain.models.flux import APART, FIRST, PACKED, packed_tokens
from bigain.models.packed import grid_of_positions, positions
from bigain.models.site import Site
from bigain.models.transformer import Blocks, early
from bigain.tokens.grid import Grid


def sites(model: Any) -> list[Site]:
    found = Blocks(packed_tokens(model))
    for index, block in enumerate(model.transformer_blocks):
        found.begin(f"transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "double", APART)
        found.add("ff", block.ff, "mlp", "double")
    for index, block in enumerate(model.single_transformer_blocks):
        found.begin(f"single_transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "single", FIRST)
    return found.sites


def grid(model: Any, argument: Argument) -> Grid:
    if argument("kv_cache_mode") is not None:
        raise ValueError("Flux2Transformer2DModel with kv_cache_mode has reference images, which cannot be compressed")
    return grid_of_positions(argument("img_ids"), argument("hidden_states").shape[1], type(model).__name__)


def inputs(example: Example) -> Inputs:
    config, model = example.model.config, example.model
    height, width = example.tokens(PACKED)
    axes = len(config["axes_dims_rope"])
    words = torch.zeros(example.text_tokens, axes)
    words[:, -1] = torch.arange(example.text_tokens)
    kwargs = {
        "hidden_states": example.random(height * width, config["in_channels"]),
        "encoder_hidden_states": example.random(example.text_tokens, config["joint_attention_dim"]),
        "timestep": example.timesteps() / 1000,
        "img_ids": positions(height, width, axes),
        "txt_ids": words,
        "guidance": torch.full((example.batch,), 3.5, device=model.device, dtype=model.dtype),
    }
    return Inputs((), kwargs)


FAMILIES.append(
    Family(
        models=("Flux2Transformer2DModel",),
        latents="hidden_states",
        sites=sites,
        default=early,
        metric="module",
        grid=grid,
        inputs=inputs,
        side=128,
        carrier="joint_attention_kwargs",
        block_carrier="joint_attention_kwargs",
        timesteps=1000,
        title="FLUX.2",
    )
)

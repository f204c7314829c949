"""Qwen-Image: double blocks, rotary positions of image and text as complex numbers, masked text."""

import math
from typing import Any

import torch
from torch import Tensor

from bigain.models.family import FAMILIES, Argument, Example, Family, Inputs
from bigain.models.flux import PACKED, packed_tokens
from bigain.models.site import Site, Stream
from bigain.models.transformer import Blocks, early
from bigain.tokens.grid import Grid
from bigain.tokens.rotary import Rotation


def rotary(tables: tuple[Tensor, Tensor], text: int) -> tuple[Rotation, Rotation]:
    """((N, D/2), (L, D/2)) complex, image first -> rotations of the image and of the text."""
    image, words = (Rotation(*torch.view_as_real(table)[None].unbind(-1)) for table in tables)
    return image, words


JOINT = Stream(text="apart", rotary=rotary)


def sites(model: Any) -> list[Site]:
    found = Blocks(packed_tokens(model))
    for index, block in enumerate(model.transformer_blocks):
        found.begin(f"transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "double", JOINT)
        found.add("img_mlp", block.img_mlp, "mlp", "double")
    return found.sites


def grid(model: Any, argument: Argument) -> Grid:
    shapes, tokens = argument("img_shapes"), argument("hidden_states").shape[1]
    first = shapes[0]
    frames, height, width = first[0] if isinstance(first, list) else first
    if frames * height * width != tokens or frames != 1:
        others = math.prod((frames, height, width))
        raise ValueError(
            f"{type(model).__name__} got {tokens} image tokens, but the first of img_shapes has {others} in {frames} "
            "frames; reference images beside the generated one (editing) and layers cannot be compressed"
        )
    return Grid(height, width)


def inputs(example: Example) -> Inputs:
    config = example.model.config
    height, width = example.tokens(PACKED)
    kwargs = {
        "hidden_states": example.random(height * width, config["in_channels"]),
        "encoder_hidden_states": example.random(example.text_tokens, config["joint_attention_dim"]),
        "timestep": example.timesteps() / 1000,
        "img_shapes": [[(1, height, width)]] * example.batch,
    }
    return Inputs((), kwargs)


FAMILIES.append(
    Family(
        models=("QwenImageTransformer2DModel",),
        latents="hidden_states",
        sites=sites,
        default=early,
        metric="module",
        grid=grid,
        inputs=inputs,
        side=128,
        carrier="attention_kwargs",
        block_carrier="joint_attention_kwargs",
        timesteps=1000,
        title="Qwen-Image",
    )
)

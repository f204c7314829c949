"""Qwen-Image: double blocks, rotary positions of image and text as complex numbers, masked text."""

import math
from typing import Any

import torch
from torch import Tensor

from bigain.models.family import FAMILIES, Argument, Example, Family, Inputs
from bigain.models.flux import PACKED, double_blocks, packed_inputs
from bigain.models.site import Site, Stream
from bigain.models.transformer import early
from bigain.tokens.grid import Grid
from bigain.tokens.rotary import Rotation


def rotary(tables: tuple[Tensor, Tensor], text: int) -> tuple[Rotation, Rotation]:
    """((N, D/2), (L, D/2)) complex, image first -> rotations of the image and of the text."""
    image, words = (Rotation(*torch.view_as_real(table)[None].unbind(-1)) for table in tables)
    return image, words


JOINT = Stream(text="apart", rotary=rotary)


def sites(model: Any) -> list[Site]:
    return double_blocks(model, JOINT, "img_mlp").sites


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
    return Inputs((), packed_inputs(example) | {"img_shapes": [[(1, *example.tokens(PACKED))]] * example.batch})


FAMILIES.append(
    Family(
        models=("QwenImageTransformer2DModel",),
        sites=sites,
        default=early,
        grid=grid,
        inputs=inputs,
        side=128,
        carrier="attention_kwargs",
        block_carrier="joint_attention_kwargs",
        timesteps=1000,
        title="Qwen-Image",
    )
)

"""FLUX.1 and Chroma: double blocks with text apart, single blocks with text first, rotary positions of both."""

from typing import Any

import torch
from torch import Tensor

from bigain.models.family import FAMILIES, Argument, Example, Family, Inputs, native_size
from bigain.models.packed import grid_of_positions, positions
from bigain.models.site import Site, Stream
from bigain.models.transformer import Blocks, early
from bigain.tokens.grid import Grid
from bigain.tokens.rotary import Rotation, split_rotation

PACKED = 2  # latents of 2 x 2 go into one token


def rotary(tables: tuple[Tensor, Tensor], text: int) -> tuple[Rotation, Rotation | None]:
    """Each angle stands twice, text comes first: ((S, D), (S, D)) -> rotations of the image and of the text."""
    cos, sin = (table[None, :, ::2] for table in tables)
    return split_rotation(Rotation(cos, sin), text)


APART, FIRST = Stream(text="apart", rotary=rotary), Stream(text="first", rotary=rotary)


def double_blocks(model: Any, stream: Stream = APART, mlp: str = "ff") -> Blocks:
    """The sites of the double blocks."""
    found = Blocks(packed_tokens(model))
    for index, block in enumerate(model.transformer_blocks):
        found.begin(f"transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "double", stream)
        found.add(mlp, getattr(block, mlp), "mlp", "double")
    return found


def sites(model: Any) -> list[Site]:
    found = double_blocks(model)
    for index, block in enumerate(model.single_transformer_blocks):
        found.begin(f"single_transformer_blocks.{index}")
        found.add("proj_mlp", block.proj_mlp, "mlp", "single", FIRST)
        found.add("attn", block.attn, "self", "single", FIRST)
        found.add("proj_out", block.proj_out, "mlp", "single", FIRST)
    return found.sites


def packed_tokens(model: Any) -> int:
    height, width = native_size(model)
    return (height // PACKED) * (width // PACKED)


def grid(model: Any, argument: Argument) -> Grid:
    return grid_of_positions(argument("img_ids"), argument("hidden_states").shape[1], type(model).__name__)


def packed_inputs(example: Example) -> dict[str, Any]:
    """Latents, text and timesteps, as all models with packed latents take them."""
    config, (height, width) = example.model.config, example.tokens(PACKED)
    return {
        "hidden_states": example.random(height * width, config["in_channels"]),
        "encoder_hidden_states": example.random(example.text_tokens, config["joint_attention_dim"]),
        "timestep": example.timesteps() / 1000,
    }


def guidance(example: Example) -> Tensor:
    return torch.full((example.batch,), 3.5, device=example.model.device, dtype=example.model.dtype)


def inputs(example: Example) -> Inputs:
    config, kwargs = example.model.config, packed_inputs(example)
    kwargs |= {"img_ids": positions(*example.tokens(PACKED)), "txt_ids": torch.zeros(example.text_tokens, 3)}
    if "pooled_projection_dim" in config:
        kwargs["pooled_projections"] = example.random(config["pooled_projection_dim"])
    if config.get("guidance_embeds"):
        kwargs["guidance"] = guidance(example)
    return Inputs((), kwargs)


for name, title, checkpoints in (
    ("FluxTransformer2DModel", "FLUX.1", True),
    ("ChromaTransformer2DModel", "Chroma", False),
):
    FAMILIES.append(
        Family(
            models=(name,),
            sites=sites,
            default=early,
            grid=grid,
            inputs=inputs,
            side=128,
            carrier="joint_attention_kwargs",
            block_carrier="joint_attention_kwargs",
            checkpoints=checkpoints,
            timesteps=1000,
            title=title,
        )
    )

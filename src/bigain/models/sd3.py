"""Stable Diffusion 3 and 3.5: text and image in joint attention, no rotary positions."""

from typing import Any

from bigain.models.family import FAMILIES, Example, Family, Inputs
from bigain.models.site import Site, Stream
from bigain.models.transformer import Blocks, early, native_tokens, patch_grid

JOINT = Stream(text="apart", hidden="queries")
IMAGE = Stream(hidden="queries")


def sites(model: Any) -> list[Site]:
    found = Blocks(native_tokens(model, model.config["patch_size"]))
    for index, block in enumerate(model.transformer_blocks):
        found.begin(f"transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "double", JOINT)
        if block.attn2 is not None:
            found.add("attn2", block.attn2, "self", "image", IMAGE)
        found.add("ff", block.ff, "mlp", "double")
    return found.sites


def inputs(example: Example) -> Inputs:
    config = example.model.config
    example.tokens(config["patch_size"], config["pos_embed_max_size"])
    latents = example.random(config["in_channels"], example.height, example.width)
    text = example.random(example.text_tokens, config["joint_attention_dim"])
    pooled = example.random(config["pooled_projection_dim"])
    return Inputs((latents, text, pooled, example.timesteps()), {})


FAMILIES.append(
    Family(
        models=("SD3Transformer2DModel",),
        sites=sites,
        default=early,
        grid=patch_grid,
        inputs=inputs,
        side=128,
        carrier="joint_attention_kwargs",
        block_carrier="joint_attention_kwargs",
        title="Stable Diffusion 3, 3.5",
    )
)

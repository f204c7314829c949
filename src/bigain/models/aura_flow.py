"""AuraFlow: joint attention in the first blocks, then one sequence of text and image; no rotary positions."""

import math
from typing import Any

from bigain.models.family import FAMILIES, Example, Family, Inputs
from bigain.models.site import Site, Stream
from bigain.models.transformer import Blocks, early, native_tokens, patch_grid

APART, FIRST = Stream(text="apart"), Stream(text="first")


def sites(model: Any) -> list[Site]:
    found = Blocks(native_tokens(model, model.config["patch_size"]))
    for index, block in enumerate(model.joint_transformer_blocks):
        found.begin(f"joint_transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "double", APART)
        found.add("ff", block.ff, "mlp", "double")
    for index, block in enumerate(model.single_transformer_blocks):
        found.begin(f"single_transformer_blocks.{index}")
        found.add("attn", block.attn, "self", "single", FIRST)
        found.add("ff", block.ff, "mlp", "single", FIRST)
    return found.sites


def inputs(example: Example) -> Inputs:
    config = example.model.config
    example.tokens(config["patch_size"], math.isqrt(config["pos_embed_max_size"]))
    latents = example.random(config["in_channels"], example.height, example.width)
    text = example.random(example.text_tokens, config["joint_attention_dim"])
    return Inputs((latents, text, example.timesteps() / 1000), {})


FAMILIES.append(
    Family(
        models=("AuraFlowTransformer2DModel",),
        sites=sites,
        default=early,
        grid=patch_grid,
        inputs=inputs,
        carrier="attention_kwargs",
        block_carrier="attention_kwargs",
        checkpoints=False,
        timesteps=1000,
        title="AuraFlow",
    )
)

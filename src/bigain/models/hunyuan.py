"""Hunyuan-DiT: self- and cross-attention with rotary positions of the image."""

from typing import Any

import torch
from torch import Tensor

from bigain.models.family import FAMILIES, Example, Family, Inputs
from bigain.models.site import Site, Stream
from bigain.models.transformer import Blocks, early, native_tokens, patch_grid
from bigain.tokens.rotary import Rotation


def rotary(tables: tuple[Tensor, Tensor], text: int) -> tuple[Rotation, None]:
    """Each angle stands twice: ((N, D), (N, D)) -> rotations of the image."""
    cos, sin = (table[None, :, ::2] for table in tables)
    return Rotation(cos, sin), None


TURNED = Stream(rotary=rotary, axis=2)


def sites(model: Any) -> list[Site]:
    found = Blocks(native_tokens(model, model.config["patch_size"]))
    for index, block in enumerate(model.blocks):
        found.begin(f"blocks.{index}")
        found.add("attn1", block.attn1, "self", "blocks", TURNED)
        found.add("attn2", block.attn2, "cross", "blocks", TURNED)
        found.add("ff", block.ff, "mlp", "blocks")
    return found.sites


def inputs(example: Example) -> Inputs:
    config, model = example.model.config, example.model
    tokens, width = example.tokens(config["patch_size"]).tokens, config["attention_head_dim"]
    angles = torch.rand(tokens, width // 2).repeat_interleave(2, 1)
    kwargs = {
        "encoder_hidden_states": example.random(config["text_len"], config["cross_attention_dim"]),
        "text_embedding_mask": torch.ones(example.batch, config["text_len"], device=model.device),
        "encoder_hidden_states_t5": example.random(config["text_len_t5"], config["cross_attention_dim_t5"]),
        "text_embedding_mask_t5": torch.ones(example.batch, config["text_len_t5"], device=model.device),
        "image_meta_size": torch.ones(example.batch, 6, device=model.device, dtype=model.dtype),
        "style": torch.zeros(example.batch, dtype=torch.int64, device=model.device),
        "image_rotary_emb": (angles.cos(), angles.sin()),
    }
    latents = example.random(config["in_channels"], example.height, example.width)
    return Inputs((latents, example.timesteps().to(model.dtype)), kwargs)


FAMILIES.append(
    Family(
        models=("HunyuanDiT2DModel",),
        sites=sites,
        default=early,
        grid=patch_grid,
        inputs=inputs,
        side=128,
        carrier="image_rotary_emb",
        block_carrier="image_rotary_emb",
        wrapped=True,
        title="Hunyuan-DiT",
    )
)

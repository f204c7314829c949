"""Tiny models of the real diffusers classes, with seeded random weights, and calls for them."""

from typing import Any

import torch
from diffusers import (
    ControlNetModel,
    DiTTransformer2DModel,
    PixArtTransformer2DModel,
    UNet2DConditionModel,
)
from torch import Tensor, nn

from helpers.joint_models import JOINT
from helpers.making import TEXT_TOKENS, TEXT_WIDTH, Backbone, Inputs, awake, move, noise, rows

__all__ = ["BACKBONES", "EXAMPLES", "TEXT_TOKENS", "TEXT_WIDTH", "Backbone", "Inputs", "awake", "move", "noise", "rows"]

LABELS = 10

SD: dict[str, Any] = {
    "sample_size": 16,
    "block_out_channels": (32, 64),
    "layers_per_block": 2,
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    "attention_head_dim": (2, 4),
    "cross_attention_dim": TEXT_WIDTH,
    "norm_num_groups": 8,
    "use_linear_projection": True,
}
SDXL: dict[str, Any] = {
    "sample_size": 16,
    "block_out_channels": (32, 32, 64),
    "layers_per_block": 1,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 2, 3),
    "attention_head_dim": (2, 2, 4),
    "cross_attention_dim": TEXT_WIDTH,
    "norm_num_groups": 8,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 6 * 8 + TEXT_WIDTH,
}
DIT: dict[str, Any] = {
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 8,
    "num_layers": 6,
    "num_attention_heads": 2,
    "attention_head_dim": 16,
    "num_embeds_ada_norm": LABELS,
}
PIXART: dict[str, Any] = {
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 8,
    "num_layers": 5,
    "num_attention_heads": 2,
    "attention_head_dim": 16,
    "cross_attention_dim": 32,
    "caption_channels": TEXT_WIDTH,
    "use_additional_conditions": False,
}
CONTROLNET: dict[str, Any] = {
    name: value for name, value in SD.items() if name not in ("sample_size", "up_block_types")
} | {"conditioning_embedding_out_channels": (8, 16)}

EXAMPLES = {
    "gated_merge": "gated_merge(ratio=0.6)",
    "block_merge": "block_merge(ratio=0.6)",
    "kv_downsample": "kv_downsample(factor=2, alpha=0.9)",
    "todo": "todo(factor=2)",
    "avg_pool": "avg_pool(factor=2)",
    "kv_select": "kv_select(keep=0.4)",
    "sito": "sito(ratio=0.6)",
    "tome": "tome(ratio=0.6)",
    "toma": "toma(ratio=0.6, tiles=4)",
}


def latents_and_text(batch: int, size: tuple[int, int], seed: int) -> tuple[Tensor, Tensor]:
    latents = rows(lambda i: noise(1, 4, *size, seed=seed + i), batch)
    text = rows(lambda i: noise(1, TEXT_TOKENS, TEXT_WIDTH, seed=seed + i + 50), batch)
    return latents, text


def unet_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    latents, text = latents_and_text(batch, size, seed)
    return Inputs((latents, t, text), {})


def sdxl_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    latents, text = latents_and_text(batch, size, seed)
    added = {"text_embeds": text[:, 0], "time_ids": torch.tensor([[128.0, 128, 0, 0, 128, 128]] * batch)}
    return Inputs((latents, t, text), {"added_cond_kwargs": added})


def dit_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    latents, _ = latents_and_text(batch, size, seed)
    return Inputs((latents, t), {"class_labels": torch.arange(batch) % LABELS})


def pixart_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    latents, text = latents_and_text(batch, size, seed)
    return Inputs((latents, text, t), {"added_cond_kwargs": {}})


def controlnet_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    latents, text = latents_and_text(batch, size, seed)
    hint = rows(lambda i: noise(1, 3, 2 * size[0], 2 * size[1], seed=seed + i + 70), batch)
    return Inputs((latents, t, text, hint), {})


BACKBONES = {
    backbone.name: backbone
    for backbone in (
        Backbone("sd", UNet2DConditionModel, SD, unet_inputs),
        Backbone("sdxl", UNet2DConditionModel, SDXL, sdxl_inputs),
        Backbone("dit", DiTTransformer2DModel, DIT, dit_inputs),
        Backbone("pixart", PixArtTransformer2DModel, PIXART, pixart_inputs),
        Backbone("controlnet", ControlNetModel, CONTROLNET, controlnet_inputs),
        *JOINT,
    )
}


def call(model: Any, inputs: Inputs) -> Tensor:
    """The output, one row for each sample: (B, ...)."""
    found = model(*inputs.args, **inputs.kwargs, return_dict=False)
    if len(found) == 1:
        return found[0]
    down, mid = found
    return torch.cat([part.flatten(1) for part in (*down, mid)], 1)


@torch.no_grad()
def run(backbone: Backbone, model: Any, **choice: Any) -> Tensor:
    """The output for seeded inputs, in the model's dtype."""
    return call(model, move(backbone.inputs(**choice), model.dtype))


def traces(model: nn.Module) -> dict[str, Any]:
    """What could be left on a model: the attributes of each module, and how many hooks of which kind it has."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        hooks = {key: len(value) for key, value in module.__dict__.items() if "_hooks" in key}
        found[name] = (sorted(module.__dict__), hooks, sorted(module._modules), sorted(module._buffers))
    return found


def distance(a: Tensor, b: Tensor) -> float:
    """Root-mean-square difference in relation to b."""
    return float((a.double() - b.double()).norm() / b.double().norm())

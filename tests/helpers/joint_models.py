"""Tiny models with joint attention or rotary positions, of the real diffusers classes, and calls for them."""

from typing import Any

import diffusers
import torch
from torch import Tensor

from bigain.models.packed import positions
from helpers.making import TEXT_TOKENS, TEXT_WIDTH, Backbone, Inputs, noise, rows

HEADS: dict[str, Any] = {"num_attention_heads": 2, "attention_head_dim": 16}
SD3: dict[str, Any] = HEADS | {
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 4,
    "joint_attention_dim": TEXT_WIDTH,
    "caption_projection_dim": 32,
    "pooled_projection_dim": 16,
    "pos_embed_max_size": 16,
    "dual_attention_layers": (0, 1),
    "qk_norm": "rms_norm",
}
FLUX: dict[str, Any] = HEADS | {
    "in_channels": 16,
    "num_layers": 2,
    "num_single_layers": 3,
    "joint_attention_dim": TEXT_WIDTH,
    "pooled_projection_dim": 16,
    "guidance_embeds": True,
    "axes_dims_rope": (4, 6, 6),
}
CHROMA: dict[str, Any] = HEADS | {
    "in_channels": 16,
    "num_layers": 2,
    "num_single_layers": 3,
    "joint_attention_dim": TEXT_WIDTH,
    "axes_dims_rope": (4, 6, 6),
    "approximator_num_channels": 8,
    "approximator_hidden_dim": 16,
    "approximator_layers": 1,
}
FLUX2: dict[str, Any] = HEADS | {
    "in_channels": 16,
    "num_layers": 2,
    "num_single_layers": 3,
    "joint_attention_dim": TEXT_WIDTH,
    "timestep_guidance_channels": 16,
    "axes_dims_rope": (4, 4, 4, 4),
}
QWEN: dict[str, Any] = HEADS | {
    "in_channels": 16,
    "out_channels": 4,
    "num_layers": 4,
    "joint_attention_dim": TEXT_WIDTH,
    "axes_dims_rope": (4, 6, 6),
}
AURA: dict[str, Any] = HEADS | {
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 4,
    "num_mmdit_layers": 2,
    "num_single_dit_layers": 3,
    "joint_attention_dim": TEXT_WIDTH,
    "caption_projection_dim": 32,
    "pos_embed_max_size": 256,
}
HUNYUAN: dict[str, Any] = HEADS | {
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "num_layers": 6,
    "hidden_size": 32,
    "cross_attention_dim": TEXT_WIDTH,
    "cross_attention_dim_t5": TEXT_WIDTH,
    "pooled_projection_dim": 16,
    "text_len": TEXT_TOKENS,
    "text_len_t5": 5,
}


def text_of(batch: int, seed: int, tokens: int = TEXT_TOKENS) -> Tensor:
    return rows(lambda i: noise(1, tokens, TEXT_WIDTH, seed=seed + i + 50), batch)


def latents_of(batch: int, size: tuple[int, int], seed: int) -> Tensor:
    return rows(lambda i: noise(1, 4, *size, seed=seed + i), batch)


def packed(latents: Tensor) -> Tensor:
    """2 x 2 latents to a token: (B, 4, H, W) -> (B, H·W/4, 16)."""
    return torch.nn.functional.pixel_unshuffle(latents, 2).flatten(2).transpose(1, 2)


def sd3_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    pooled = rows(lambda i: noise(1, 16, seed=seed + i + 90), batch)
    return Inputs((latents_of(batch, size, seed), text_of(batch, seed), pooled, t), {})


def aura_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    return Inputs((latents_of(batch, size, seed), text_of(batch, seed), t / 1000), {})


def packed_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> dict[str, Any]:
    return {
        "hidden_states": packed(latents_of(batch, size, seed)),
        "encoder_hidden_states": text_of(batch, seed),
        "timestep": t / 1000,
    }


def flux_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    pooled = rows(lambda i: noise(1, 16, seed=seed + i + 90), batch)
    kwargs = packed_inputs(batch, size, t, seed) | {"pooled_projections": pooled, "guidance": torch.full((batch,), 3.5)}
    return Inputs((), kwargs | places(size, 3))


def places(size: tuple[int, int], axes: int) -> dict[str, Tensor]:
    return {"img_ids": positions(size[0] // 2, size[1] // 2, axes).clone(), "txt_ids": torch.zeros(TEXT_TOKENS, axes)}


def chroma_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    return Inputs((), packed_inputs(batch, size, t, seed) | places(size, 3))


def flux2_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    kwargs = packed_inputs(batch, size, t, seed) | places(size, 4)
    return Inputs((), kwargs | {"guidance": torch.full((batch,), 3.5)})


def qwen_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    """The last rows have shorter prompts."""
    mask = torch.arange(TEXT_TOKENS) < TEXT_TOKENS - 2 * torch.arange(batch)[:, None].clamp_max(2)
    shapes = [[(1, size[0] // 2, size[1] // 2)]] * batch
    return Inputs((), packed_inputs(batch, size, t, seed) | {"img_shapes": shapes, "encoder_hidden_states_mask": mask})


def hunyuan_inputs(batch: int, size: tuple[int, int], t: Any, seed: int) -> Inputs:
    frequency = 100.0 ** -torch.linspace(0, 1, 4)
    ids = positions(size[0] // 2, size[1] // 2)
    angles = torch.cat([ids[:, 1:2] * frequency, ids[:, 2:3] * frequency], 1).repeat_interleave(2, 1)
    kwargs = {
        "encoder_hidden_states": text_of(batch, seed),
        "text_embedding_mask": torch.ones(batch, TEXT_TOKENS),
        "encoder_hidden_states_t5": text_of(batch, seed + 20, 5),
        "text_embedding_mask_t5": torch.ones(batch, 5),
        "image_meta_size": torch.ones(batch, 6),
        "style": torch.zeros(batch, dtype=torch.int64),
        "image_rotary_emb": (angles.cos(), angles.sin()),
    }
    return Inputs((latents_of(batch, size, seed), t.to(torch.float32)), kwargs)


JOINT = (
    Backbone("sd3", diffusers.SD3Transformer2DModel, SD3, sd3_inputs),
    Backbone("flux", diffusers.FluxTransformer2DModel, FLUX, flux_inputs),
    Backbone("chroma", diffusers.ChromaTransformer2DModel, CHROMA, chroma_inputs),
    Backbone("flux2", diffusers.Flux2Transformer2DModel, FLUX2, flux2_inputs),
    Backbone("qwen", diffusers.QwenImageTransformer2DModel, QWEN, qwen_inputs),
    Backbone("aura", diffusers.AuraFlowTransformer2DModel, AURA, aura_inputs),
    Backbone("hunyuan", diffusers.HunyuanDiT2DModel, HUNYUAN, hunyuan_inputs),
)

"""Architectures by name; diffusers is not needed to know them."""

from pathlib import Path
from typing import Any, NamedTuple

from bigain.defaults import TEXT_TOKENS
from bigain.registry import miss


class Architecture(NamedTuple):
    """A class of diffusers and its published configuration.

    `text_tokens` is the length of the prompts that its pipeline makes, or the most that it takes by default where it
    does not pad them (Qwen-Image). `side` is that of its latents, where the configuration does not say or another one
    is usual.
    """

    model: str
    config: dict[str, Any]
    text_tokens: int = TEXT_TOKENS
    side: int | None = None


SD: dict[str, Any] = {"sample_size": 64, "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2}
DIT_XL: dict[str, Any] = {
    "patch_size": 2, "in_channels": 4, "out_channels": 8, "num_layers": 28, "num_attention_heads": 16,
    "attention_head_dim": 72, "num_embeds_ada_norm": 1000, "norm_type": "ada_norm_zero", "attention_bias": True,
    "activation_fn": "gelu-approximate", "norm_elementwise_affine": False,
}  # fmt: skip
PIXART_SIGMA: dict[str, Any] = DIT_XL | {
    "sample_size": 128, "norm_type": "ada_norm_single", "cross_attention_dim": 1152, "caption_channels": 4096,
    "interpolation_scale": 2, "use_additional_conditions": False,
}  # fmt: skip
SD3: dict[str, Any] = {
    "sample_size": 128, "patch_size": 2, "in_channels": 16, "out_channels": 16, "num_layers": 24,
    "num_attention_heads": 24, "attention_head_dim": 64, "joint_attention_dim": 4096, "caption_projection_dim": 1536,
    "pooled_projection_dim": 2048, "pos_embed_max_size": 192,
}  # fmt: skip
SD35_MEDIUM = SD3 | {"pos_embed_max_size": 384, "dual_attention_layers": [*range(13)], "qk_norm": "rms_norm"}
SD35_LARGE = SD3 | {
    "num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432, "qk_norm": "rms_norm",
}  # fmt: skip
FLUX1: dict[str, Any] = {
    "patch_size": 1, "in_channels": 64, "num_layers": 19, "num_single_layers": 38, "num_attention_heads": 24,
    "attention_head_dim": 128, "joint_attention_dim": 4096, "axes_dims_rope": [16, 56, 56],
}  # fmt: skip
POOLED: dict[str, Any] = {"pooled_projection_dim": 768}
CHROMA: dict[str, Any] = FLUX1 | {
    "approximator_num_channels": 64, "approximator_hidden_dim": 5120, "approximator_layers": 5,
}  # fmt: skip
FLUX2: dict[str, Any] = {
    "patch_size": 1, "in_channels": 128, "num_layers": 8, "num_single_layers": 48, "num_attention_heads": 48,
    "attention_head_dim": 128, "joint_attention_dim": 15360, "timestep_guidance_channels": 256, "mlp_ratio": 3.0,
    "axes_dims_rope": [32, 32, 32, 32], "rope_theta": 2000,
}  # fmt: skip
QWEN_IMAGE: dict[str, Any] = {
    "patch_size": 2, "in_channels": 64, "out_channels": 16, "num_layers": 60, "num_attention_heads": 24,
    "attention_head_dim": 128, "joint_attention_dim": 3584, "axes_dims_rope": [16, 56, 56],
}  # fmt: skip
AURA_FLOW: dict[str, Any] = {
    "sample_size": 64, "patch_size": 2, "in_channels": 4, "out_channels": 4, "num_mmdit_layers": 4,
    "num_single_dit_layers": 32, "num_attention_heads": 12, "attention_head_dim": 256, "joint_attention_dim": 2048,
    "caption_projection_dim": 3072, "pos_embed_max_size": 9216,
}  # fmt: skip
HUNYUAN_DIT: dict[str, Any] = {
    "sample_size": 128, "patch_size": 2, "in_channels": 4, "num_layers": 40, "num_attention_heads": 16,
    "attention_head_dim": 88, "hidden_size": 1408, "mlp_ratio": 4.3637, "cross_attention_dim": 1024,
    "cross_attention_dim_t5": 2048, "pooled_projection_dim": 1024, "text_len": 77, "text_len_t5": 256,
    "use_style_cond_and_image_meta_size": False,
}  # fmt: skip

ARCHITECTURES: dict[str, Architecture] = {
    "sd15": Architecture("UNet2DConditionModel", SD | {"attention_head_dim": 8, "cross_attention_dim": 768}),
    "sd2": Architecture(
        "UNet2DConditionModel",
        SD | {"attention_head_dim": [5, 10, 20, 20], "cross_attention_dim": 1024, "use_linear_projection": True},
    ),
    "sd2-top": Architecture(  # the finest level of sd2 alone, where most of what compression saves is
        "UNet2DConditionModel",
        SD
        | {
            "block_out_channels": [320],
            "down_block_types": ["CrossAttnDownBlock2D"],
            "mid_block_type": None,
            "up_block_types": ["CrossAttnUpBlock2D"],
            "attention_head_dim": [5],
            "cross_attention_dim": 1024,
            "use_linear_projection": True,
        },
    ),
    "sdxl": Architecture(
        "UNet2DConditionModel",
        {
            "sample_size": 128,
            "block_out_channels": [320, 640, 1280],
            "layers_per_block": 2,
            "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
            "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
            "transformer_layers_per_block": [1, 2, 10],
            "attention_head_dim": [5, 10, 20],
            "cross_attention_dim": 2048,
            "use_linear_projection": True,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 256,
            "projection_class_embeddings_input_dim": 2816,
        },
    ),
    "dit-xl-2-256": Architecture("DiTTransformer2DModel", DIT_XL | {"sample_size": 32}),
    "dit-xl-2-512": Architecture("DiTTransformer2DModel", DIT_XL | {"sample_size": 64}),
    "pixart-sigma": Architecture("PixArtTransformer2DModel", PIXART_SIGMA, 300),
    "sd3-medium": Architecture("SD3Transformer2DModel", SD3, 77 + 256),
    "sd35-medium": Architecture("SD3Transformer2DModel", SD35_MEDIUM, 77 + 256),
    "sd35-large": Architecture("SD3Transformer2DModel", SD35_LARGE, 77 + 256),
    "flux1-dev": Architecture("FluxTransformer2DModel", FLUX1 | POOLED | {"guidance_embeds": True}, 512),
    "flux1-schnell": Architecture("FluxTransformer2DModel", FLUX1 | POOLED | {"guidance_embeds": False}, 256),
    "chroma1-hd": Architecture("ChromaTransformer2DModel", CHROMA, 512),
    "flux2-dev": Architecture("Flux2Transformer2DModel", FLUX2, 512),
    "qwen-image": Architecture("QwenImageTransformer2DModel", QWEN_IMAGE, 512),
    "aura-flow": Architecture("AuraFlowTransformer2DModel", AURA_FLOW, 256, 128),
    "hunyuan-dit": Architecture("HunyuanDiT2DModel", HUNYUAN_DIT, 77 + 256),
}


def narrower(name: str, **changes: Any) -> Architecture:
    """An architecture with a quarter of the heads and of the text, at half the side.

    So attention has the share of a block's work that it has in the whole model at 1024 pixels.
    """
    whole = ARCHITECTURES[name]
    heads = {"num_attention_heads": whole.config["num_attention_heads"] // 4}
    return Architecture(whole.model, whole.config | heads | changes, whole.text_tokens // 4, 64)


ARCHITECTURES |= {  # some of the blocks, for times on a CPU
    "sd3-narrow": narrower("sd3-medium", num_layers=12, caption_projection_dim=384),
    "sd35-narrow": narrower(
        "sd35-medium", num_layers=12, caption_projection_dim=384, dual_attention_layers=[*range(6)]
    ),
    "flux1-narrow": narrower("flux1-dev", num_layers=2, num_single_layers=4),
    "qwen-narrow": narrower("qwen-image", num_layers=6),
}


def check_named(name_or_folder: str) -> None:
    """An architecture, or a folder with a model."""
    if name_or_folder not in ARCHITECTURES and not Path(name_or_folder).is_dir():
        raise ValueError(miss("architecture or model folder", name_or_folder, ARCHITECTURES))


def prompt_length(name: str, model_class: str) -> int:
    """Tokens of a prompt of an architecture; of another model, those of the first architecture of its class."""
    same_class = (known.text_tokens for known in ARCHITECTURES.values() if known.model == model_class)
    return ARCHITECTURES[name].text_tokens if name in ARCHITECTURES else next(same_class, TEXT_TOKENS)


def usual_latent(name: str) -> tuple[int, int] | None:
    """The size of an architecture's latents, where its configuration does not say."""
    side = ARCHITECTURES[name].side if name in ARCHITECTURES else None
    return None if side is None else (side, side)

"""Architectures by name; diffusers is not needed to know them."""

from pathlib import Path
from typing import Any

from bigain.registry import miss

SD: dict[str, Any] = {"sample_size": 64, "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2}
DIT_XL: dict[str, Any] = {
    "patch_size": 2, "in_channels": 4, "out_channels": 8, "num_layers": 28, "num_attention_heads": 16,
    "attention_head_dim": 72, "num_embeds_ada_norm": 1000, "norm_type": "ada_norm_zero", "attention_bias": True,
    "activation_fn": "gelu-approximate", "norm_elementwise_affine": False,
}  # fmt: skip
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "sd15": ("UNet2DConditionModel", SD | {"attention_head_dim": 8, "cross_attention_dim": 768}),
    "sd2": (
        "UNet2DConditionModel",
        SD | {"attention_head_dim": [5, 10, 20, 20], "cross_attention_dim": 1024, "use_linear_projection": True},
    ),
    "sd2-top": (  # the finest level of sd2 alone, where most of what compression saves is
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
    "sdxl": (
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
    "dit-xl-2-256": ("DiTTransformer2DModel", DIT_XL | {"sample_size": 32}),
    "dit-xl-2-512": ("DiTTransformer2DModel", DIT_XL | {"sample_size": 64}),
}


def check_named(name_or_folder: str) -> None:
    """An architecture, or a folder with a model."""
    if name_or_folder not in ARCHITECTURES and not Path(name_or_folder).is_dir():
        raise ValueError(miss("architecture or model folder", name_or_folder, ARCHITECTURES))

"""Tiny parts of pipelines: tokenizers, text encoders, VAEs and a scheduler, of the real classes."""

import json
from pathlib import Path
from typing import Any

import diffusers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTokenizer,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
)

from helpers.models import TEXT_WIDTH, awake

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]


def tokenizer(folder: Path) -> CLIPTokenizer:
    """Letters as the whole vocabulary, and one merge."""
    words = [*LETTERS, *(letter + "</w>" for letter in LETTERS), "ca", "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\nc a\n")
    return CLIPTokenizer.from_pretrained(folder, model_max_length=16)


def text_encoder(kind: type = CLIPTextModel, **changes: Any) -> Any:
    config = CLIPTextConfig(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        bos_token_id=53,
        eos_token_id=54,
        pad_token_id=54,
        **changes,
    )
    return kind(config).eval()


def t5_tokenizer() -> T5Tokenizer:
    """Letters, with a space before them or not."""
    chunks = ["<pad>", "</s>", "<unk>", "▁", *LETTERS, *("▁" + letter for letter in LETTERS)]
    return T5Tokenizer(vocab=[(chunk, -float(len(chunk))) for chunk in chunks], extra_ids=0)


def t5_encoder(width: int = TEXT_WIDTH) -> T5EncoderModel:
    config = T5Config(vocab_size=64, d_model=width, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
    return T5EncoderModel(config).eval()


def vae(levels: int = 2, **changes: Any) -> diffusers.AutoencoderKL:
    """Each level after the first halves the picture."""
    model = diffusers.AutoencoderKL(
        block_out_channels=(8,) * levels,
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=32,
        **changes,
    )
    return awake(model).eval()


def flow_dpm(**options: Any) -> diffusers.DPMSolverMultistepScheduler:
    """DPM-Solver++ for velocities."""
    return diffusers.DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, **options)


def qwen_tokenizer() -> Qwen2Tokenizer:
    """Bytes, and the marks of a chat."""
    words = [*sorted(ByteLevel.alphabet()), "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return Qwen2Tokenizer(vocab={word: i for i, word in enumerate(words)}, merges=[])


def qwen_encoder() -> Qwen2_5_VLForConditionalGeneration:
    text = {
        "vocab_size": 320,
        "hidden_size": TEXT_WIDTH,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 2048,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10_000.0},
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 256),
    }
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 1, "out_hidden_size": TEXT_WIDTH}
    marks = {"image_token_id": 300, "video_token_id": 301, "vision_start_token_id": 302, "vision_end_token_id": 303}
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=text, vision_config=vision, **marks)).eval()


def qwen_vae() -> diffusers.AutoencoderKLQwenImage:
    model = diffusers.AutoencoderKLQwenImage(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 2],
        num_res_blocks=1,
        temperal_downsample=[False],
        latents_mean=[-0.8, 0.1, 0.5, -0.3],
        latents_std=[2.8, 1.5, 2.3, 1.2],
    )
    return awake(model).eval()

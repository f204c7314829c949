"""Tiny pipelines of the real classes with seeded random weights, written to disk as published ones are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import torch
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
)

import bigain
from helpers.models import BACKBONES, TEXT_WIDTH, awake

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
# of the schedulers of Stable Diffusion 1.x, 2.x and XL, as published
PUBLISHED: dict[str, Any] = {
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "clip_sample": False,
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
}
NAMES = {1: "goldfish, Carassius auratus", 207: "golden retriever", 281: "tabby, tabby cat"}


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


def t5_encoder() -> T5EncoderModel:
    config = T5Config(vocab_size=64, d_model=TEXT_WIDTH, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
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


def sd(folder: Path, **parts: Any) -> diffusers.StableDiffusionPipeline:
    """Stable Diffusion 1.x, and 2.x at 512."""
    ready: dict[str, Any] = {
        "vae": vae(),
        "text_encoder": text_encoder(),
        "tokenizer": tokenizer(folder / "words"),
        "unet": BACKBONES["sd"].build(),
        "scheduler": diffusers.PNDMScheduler.from_config(PUBLISHED),
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
    }
    return diffusers.StableDiffusionPipeline(**(ready | parts))


def sd_v(folder: Path, **parts: Any) -> diffusers.StableDiffusionPipeline:
    """Stable Diffusion 2.x at 768."""
    scheduler = diffusers.DDIMScheduler.from_config(PUBLISHED, prediction_type="v_prediction")
    return sd(folder, **({"scheduler": scheduler} | parts))


def sdxl(folder: Path, **parts: Any) -> diffusers.StableDiffusionXLPipeline:
    ready: dict[str, Any] = {
        "vae": vae(),
        "text_encoder": text_encoder(),
        "text_encoder_2": text_encoder(CLIPTextModelWithProjection, projection_dim=TEXT_WIDTH),
        "tokenizer": tokenizer(folder / "words"),
        "tokenizer_2": tokenizer(folder / "words_2"),
        "unet": BACKBONES["sdxl"].build(cross_attention_dim=64),
        "scheduler": diffusers.EulerDiscreteScheduler.from_config(PUBLISHED, timestep_spacing="leading"),
        "add_watermarker": False,
    }
    return diffusers.StableDiffusionXLPipeline(**(ready | parts))


def dit(folder: Path, **parts: Any) -> diffusers.DiTPipeline:
    """With 1000 labels, as its pipeline takes for granted, and learned sigma: 8 output channels."""
    ready: dict[str, Any] = {
        "transformer": BACKBONES["dit"].build(num_embeds_ada_norm=1000),
        "vae": vae(),
        "scheduler": diffusers.DDIMScheduler(clip_sample=False),
    }
    return diffusers.DiTPipeline(**(ready | parts))


def pixart(folder: Path, kind: type = diffusers.PixArtAlphaPipeline, **parts: Any) -> Any:
    ready: dict[str, Any] = {
        "tokenizer": t5_tokenizer(),
        "text_encoder": t5_encoder(),
        "vae": vae(),
        "transformer": BACKBONES["pixart"].build(),
        "scheduler": diffusers.DPMSolverMultistepScheduler(),
    }
    return kind(**(ready | parts))


def pixart_sized(folder: Path, **parts: Any) -> Any:
    """PixArt-alpha at 1024, which is told the size of the picture; large patches keep it small."""
    network = BACKBONES["pixart"].build(
        sample_size=128, patch_size=16, num_attention_heads=3, cross_attention_dim=48, use_additional_conditions=None
    )
    return pixart(folder, **({"transformer": network, "vae": vae(levels=1)} | parts))


def pixart_sigma(folder: Path, **parts: Any) -> Any:
    return pixart(folder, diffusers.PixArtSigmaPipeline, **parts)


BUILDERS: dict[str, Callable[..., Any]] = {
    "sd": sd,
    "sd-v": sd_v,
    "sdxl": sdxl,
    "dit": dit,
    "pixart": pixart,
    "pixart-sized": pixart_sized,
    "pixart-sigma": pixart_sigma,
}


def save(name: str, folder: Path, **parts: Any) -> Path:
    """The folder of a saved pipeline; parts replace the builder's."""
    torch.manual_seed(0)
    (folder / "made").mkdir()
    BUILDERS[name](folder / "made", **parts).save_pretrained(folder / "pipe")
    if name == "dit":
        edit_index(folder / "pipe", id2label={str(number): text for number, text in NAMES.items()})
    return folder / "pipe"


def edit_index(folder: Path, **changes: Any) -> None:
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class Shelf:
    """Denoisers of saved and loaded pipelines, each made once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: dict[str, Any] = {}

    def get(self, name: str, key: str = "", dtype: torch.dtype = torch.float32, **parts: Any) -> Any:
        place = f"{name} {key} {dtype}"
        if place not in self.found:
            (self.root / place).mkdir()
            self.found[place] = bigain.load(save(name, self.root / place, **parts), dtype=dtype)
            self.found[place].pipeline.set_progress_bar_config(disable=True)
        return self.found[place]


def network_arguments(name: str, pipe: Any, label: Any, side: int = 32) -> dict[str, Any]:
    """What the network is given for one class, straight from the pipeline."""
    if name == "dit":
        return {"class_labels": torch.tensor([{"tabby cat": 281}.get(label, label)])}
    if name == "sdxl":
        text, _, pooled, _ = pipe.encode_prompt(label, do_classifier_free_guidance=False)
        sizes = torch.tensor([[side, side, 0, 0, side, side]], dtype=text.dtype)
        return {"encoder_hidden_states": text, "added_cond_kwargs": {"text_embeds": pooled, "time_ids": sizes}}
    if name.startswith("pixart"):
        text, mask, _, _ = pipe.encode_prompt(label, do_classifier_free_guidance=False)
        added = {"resolution": None, "aspect_ratio": None}
        return {"encoder_hidden_states": text, "encoder_attention_mask": mask, "added_cond_kwargs": added}
    return {"encoder_hidden_states": pipe.encode_prompt(label, "cpu", 1, False)[0]}

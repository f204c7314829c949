"""Tiny pipelines of the real classes with seeded random weights, written to disk as published ones are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import torch
from transformers import CLIPTextModelWithProjection

import bigain
from helpers.models import BACKBONES, TEXT_WIDTH, awake
from helpers.pipeline_parts import (
    qwen_encoder,
    qwen_tokenizer,
    qwen_vae,
    t5_encoder,
    t5_tokenizer,
    text_encoder,
    tokenizer,
    vae,
)

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
# of the schedulers of FLUX.1-dev and Qwen-Image, as published
FLUX_SHIFT: dict[str, Any] = {"shift": 3.0, "use_dynamic_shifting": True}
QWEN_SHIFT: dict[str, Any] = {
    "use_dynamic_shifting": True,
    "max_image_seq_len": 8192,
    "max_shift": 0.9,
    "shift_terminal": 0.02,
}
NAMES = {1: "goldfish, Carassius auratus", 207: "golden retriever", 281: "tabby, tabby cat"}


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


def sd3(folder: Path, **parts: Any) -> diffusers.StableDiffusion3Pipeline:
    """Stable Diffusion 3.5, with room for pictures half as wide again."""
    network = diffusers.SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=3,
        num_attention_heads=2,
        attention_head_dim=16,
        joint_attention_dim=64,
        caption_projection_dim=32,
        pooled_projection_dim=64,
        pos_embed_max_size=12,
        qk_norm="rms_norm",
    )
    ready: dict[str, Any] = {
        "vae": vae(scaling_factor=1.5305, shift_factor=0.0609),
        "text_encoder": text_encoder(CLIPTextModelWithProjection, projection_dim=32),
        "text_encoder_2": text_encoder(CLIPTextModelWithProjection, projection_dim=32),
        "text_encoder_3": t5_encoder(64),
        "tokenizer": tokenizer(folder / "words"),
        "tokenizer_2": tokenizer(folder / "words_2"),
        "tokenizer_3": t5_tokenizer(),
        "transformer": awake(network).eval(),
        "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
    }
    return diffusers.StableDiffusion3Pipeline(**(ready | parts))


def sd3_two_encoders(folder: Path, **parts: Any) -> diffusers.StableDiffusion3Pipeline:
    """Stable Diffusion 3 without T5."""
    return sd3(folder, **({"text_encoder_3": None, "tokenizer_3": None} | parts))


def sd3_img2img(pipe: diffusers.StableDiffusion3Pipeline) -> diffusers.StableDiffusion3Img2ImgPipeline:
    """The image-to-image pipeline of the same parts."""
    return diffusers.StableDiffusion3Img2ImgPipeline(**pipe.components)


def flux(folder: Path, *, distilled: bool = True, **parts: Any) -> diffusers.FluxPipeline:
    """FLUX.1-dev, for pictures of 32 pixels until it is saved: its transformer does not know its size."""
    network = diffusers.FluxTransformer2DModel(
        in_channels=16,
        num_layers=2,
        num_single_layers=2,
        num_attention_heads=2,
        attention_head_dim=16,
        joint_attention_dim=TEXT_WIDTH,
        pooled_projection_dim=32,
        guidance_embeds=distilled,
        axes_dims_rope=(4, 6, 6),
    )
    ready: dict[str, Any] = {
        "vae": vae(scaling_factor=0.3611, shift_factor=0.1159),
        "text_encoder": text_encoder(),
        "text_encoder_2": t5_encoder(),
        "tokenizer": tokenizer(folder / "words"),
        "tokenizer_2": t5_tokenizer(),
        "transformer": awake(network).eval(),
        "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(**FLUX_SHIFT),
    }
    pipe = diffusers.FluxPipeline(**(ready | parts))
    pipe.default_sample_size = 16
    return pipe


def flux_schnell(folder: Path, **parts: Any) -> diffusers.FluxPipeline:
    return flux(folder, distilled=False, **({"scheduler": diffusers.FlowMatchEulerDiscreteScheduler()} | parts))


def qwen_image(folder: Path, **parts: Any) -> diffusers.QwenImagePipeline:
    """Qwen-Image, for pictures of 32 pixels until it is saved: its transformer does not know its size."""
    network = diffusers.QwenImageTransformer2DModel(
        in_channels=16,
        out_channels=4,
        num_layers=2,
        num_attention_heads=2,
        attention_head_dim=16,
        joint_attention_dim=TEXT_WIDTH,
        axes_dims_rope=(4, 6, 6),
    )
    ready: dict[str, Any] = {
        "vae": qwen_vae(),
        "text_encoder": qwen_encoder(),
        "tokenizer": qwen_tokenizer(),
        "transformer": awake(network).eval(),
        "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(**QWEN_SHIFT),
    }
    pipe = diffusers.QwenImagePipeline(**(ready | parts))
    pipe.default_sample_size = 16
    return pipe


BUILDERS: dict[str, Callable[..., Any]] = {
    "sd": sd,
    "sd-v": sd_v,
    "sdxl": sdxl,
    "dit": dit,
    "pixart": pixart,
    "pixart-sized": pixart_sized,
    "pixart-sigma": pixart_sigma,
    "sd3": sd3,
    "sd3-two-encoders": sd3_two_encoders,
    "flux": flux,
    "flux-schnell": flux_schnell,
    "qwen-image": qwen_image,
}
JOINT = ("sd3", "sd3-two-encoders", "flux", "flux-schnell", "qwen-image")
PACKED = ("flux", "flux-schnell", "qwen-image")  # their transformers do not know the size of their images


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
            folder, size = save(name, self.root / place, **parts), 32 if name in PACKED else None
            self.found[place] = bigain.load(folder, dtype=dtype, image_size=size)
            self.found[place].pipeline.set_progress_bar_config(disable=True)
        return self.found[place]


@torch.no_grad()
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
    if name.startswith("sd3"):
        text, _, pooled, _ = pipe.encode_prompt(label, label, label, do_classifier_free_guidance=False)
        return {"encoder_hidden_states": text, "pooled_projections": pooled}
    if name.startswith("flux"):
        text, pooled, _ = pipe.encode_prompt(label)
        guidance = {"guidance": torch.ones(1)} if name == "flux" else {}
        return {"encoder_hidden_states": text, "pooled_projections": pooled} | guidance
    if name == "qwen-image":
        text, mask = pipe.encode_prompt(label)
        mask = torch.ones(text.shape[:2], dtype=torch.int64) if mask is None else mask
        return {"encoder_hidden_states": text, "encoder_hidden_states_mask": mask}
    return {"encoder_hidden_states": pipe.encode_prompt(label, "cpu", 1, False)[0]}

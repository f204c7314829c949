"""Denoisers from diffusers pipelines: Stable Diffusion 1.x and 2.x, SDXL, DiT, PixArt."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import diffusers
import torch
from torch import Tensor

from bigain.backbones.denoiser import Condition, Denoiser, Frame
from bigain.backbones.schedule import Schedule
from bigain.registry import miss

PROMPTS_AT_ONCE = 32


class PipelineDenoiser(Denoiser):
    """The parts of a pipeline that classification and generation need: its network, VAE and scheduler."""

    network: Any

    def __init__(self, pipeline: Any) -> None:
        network: Any = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
        for name, part in (("unet or transformer", network), ("vae", getattr(pipeline, "vae", None))):
            if part is None:
                raise ValueError(f"{type(pipeline).__name__} has no {name}; it cannot classify or generate")
        self.pipeline = pipeline
        self.vae = pipeline.vae
        self.factor = 2 ** (len(self.vae.config.block_out_channels) - 1)
        size = network.config.sample_size * self.factor
        super().__init__(
            network, Schedule.from_config(pipeline.scheduler.config), Frame(size, self.vae.config.in_channels)
        )

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        side = self.frame.size // self.factor
        return self.vae.config.latent_channels, side, side

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        found = self.vae.encode(images.to(self.device, self.vae.dtype)).latent_dist.mean
        return found.float() * self.vae.config.scaling_factor

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        scaled = latents.float() / self.vae.config.scaling_factor
        return self.vae.decode(scaled.to(self.device, self.vae.dtype)).sample.float().clamp(-1, 1)


class TextDenoiser(PipelineDenoiser):
    """Stable Diffusion 1.x and 2.x: classes are prompts."""

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        numbers = [name for name in classes if not isinstance(name, str)]
        if numbers:
            raise TypeError(
                f"{type(self.pipeline).__name__} is conditioned on text; classes are prompts, got {numbers[0]!r}"
            )
        prompts = [str(name) for name in classes]
        parts = [self._embed(prompts[i : i + PROMPTS_AT_ONCE]) for i in range(0, len(prompts), PROMPTS_AT_ONCE)]
        found = parts[0]
        for part in parts[1:]:
            found = found.join(part)
        return found

    def unconditional(self, rows: int) -> Condition:
        return self.conditions([""]).take(torch.zeros(rows, dtype=torch.int64, device=self.device))

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, _ = self.pipeline.encode_prompt(prompts, self.device, 1, False)
        return Condition({"encoder_hidden_states": found})

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return self.network(noisy, t, **condition.values).sample


class SDXLDenoiser(TextDenoiser):
    """SDXL: two text encoders, their pooled text, and the picture's size as conditions."""

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, _, pooled, _ = self.pipeline.encode_prompt(
            prompts, device=self.device, num_images_per_prompt=1, do_classifier_free_guidance=False
        )
        side = self.frame.size
        sizes = torch.tensor([[side, side, 0, 0, side, side]] * len(prompts), dtype=found.dtype, device=self.device)
        added = {"text_embeds": pooled, "time_ids": sizes}
        return Condition({"encoder_hidden_states": found, "added_cond_kwargs": added})


class PixArtDenoiser(TextDenoiser):
    """PixArt: T5 text with its mask; the first half of the output channels is the noise."""

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, mask, _, _ = self.pipeline.encode_prompt(prompts, do_classifier_free_guidance=False, device=self.device)
        extra: dict[str, Any] = {"resolution": None, "aspect_ratio": None}
        if self.network.config.sample_size == 128:
            rows = torch.ones(len(prompts), 1, dtype=found.dtype, device=self.device)
            extra = {"resolution": rows * torch.tensor([self.frame.size] * 2, device=self.device), "aspect_ratio": rows}
        values = {"encoder_hidden_states": found, "encoder_attention_mask": mask, "added_cond_kwargs": extra}
        return Condition(values)

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return self.network(noisy, timestep=t, **condition.values).sample


class DiTDenoiser(PipelineDenoiser):
    """DiT: classes are ImageNet names or label numbers; the first half of the output channels is the noise."""

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        labels = torch.tensor([self._number(name) for name in classes], dtype=torch.int64, device=self.device)
        return Condition({"class_labels": labels})

    def unconditional(self, rows: int) -> Condition:
        return Condition({"class_labels": torch.full((rows,), self._count, device=self.device)})

    @property
    def _count(self) -> int:
        return int(self.network.config.num_embeds_ada_norm)

    def _number(self, name: str | int) -> int:
        if isinstance(name, int) and not isinstance(name, bool):
            if not 0 <= name < self._count:
                raise ValueError(f"no class number {name}; this model has 0..{self._count - 1}")
            return name
        if name not in self.pipeline.labels:
            raise ValueError(miss("class", name, self.pipeline.labels))
        return int(self.pipeline.labels[name])

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return self.network(noisy, t, **condition.values).sample


PIPELINES: dict[str, Callable[[Any], Denoiser]] = {
    "StableDiffusionPipeline": TextDenoiser,
    "StableDiffusionXLPipeline": SDXLDenoiser,
    "DiTPipeline": DiTDenoiser,
    "PixArtAlphaPipeline": PixArtDenoiser,
    "PixArtSigmaPipeline": PixArtDenoiser,
}


def from_pipeline(pipeline: Any) -> Denoiser:
    """The denoiser of a loaded pipeline."""
    for cls in type(pipeline).__mro__:
        if cls.__name__ in PIPELINES:
            return PIPELINES[cls.__name__](pipeline)
    raise TypeError(f"{type(pipeline).__name__} is of no supported family; supported: {', '.join(PIPELINES)}")


def load_pipeline(place: str | Path, dtype: torch.dtype, device: str) -> Denoiser:
    """From a pipeline's folder or its name on the Hugging Face hub."""
    pipeline = diffusers.DiffusionPipeline.from_pretrained(place, torch_dtype=dtype)
    return from_pipeline(pipeline.to(device))

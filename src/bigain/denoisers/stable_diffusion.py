"""Stable Diffusion 1.x, 2.x and XL: classes are prompts."""

from collections.abc import Sequence
from typing import ClassVar

import torch

from bigain.denoisers.base import Condition
from bigain.denoisers.pipeline import PIPELINES, PipelineDenoiser

PROMPTS_AT_ONCE = 32


@PIPELINES.register("StableDiffusionPipeline")
class TextDenoiser(PipelineDenoiser):
    """Stable Diffusion 1.x and 2.x: classes are prompts."""

    by_text = True

    models: ClassVar[tuple[str, ...]] = ("unet", "vae", "text_encoder")

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        prompts = [name for name in classes if isinstance(name, str)]
        if len(prompts) < len(classes) or not prompts:
            came = next((repr(name) for name in classes if not isinstance(name, str)), "none")
            raise TypeError(f"{type(self.pipeline).__name__} needs text; classes must be prompts, got {came}")
        found = self._embed(prompts[:PROMPTS_AT_ONCE])
        for start in range(PROMPTS_AT_ONCE, len(prompts), PROMPTS_AT_ONCE):
            found = found.join(self._embed(prompts[start : start + PROMPTS_AT_ONCE]))
        return found

    def unconditional(self, rows: int) -> Condition:
        return self._embed([""]).take(torch.zeros(rows, dtype=torch.int64, device=self.device))

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, _ = self.pipeline.encode_prompt(prompts, self.device, 1, False)
        return Condition({"encoder_hidden_states": found})


@PIPELINES.register("StableDiffusionXLPipeline")
class SDXLDenoiser(TextDenoiser):
    """SDXL: two text encoders, pooled text and the image size as conditions."""

    models = ("unet", "vae", "text_encoder", "text_encoder_2")
    others = ("scheduler", "tokenizer", "tokenizer_2")

    def unconditional(self, rows: int) -> Condition:
        found = super().unconditional(rows)
        if not self.pipeline.config.force_zeros_for_empty_prompt:
            return found
        text, added = found.values["encoder_hidden_states"], found.values["added_cond_kwargs"]
        added = added | {"text_embeds": torch.zeros_like(added["text_embeds"])}
        return Condition({"encoder_hidden_states": torch.zeros_like(text), "added_cond_kwargs": added})

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, _, pooled, _ = self.pipeline.encode_prompt(
            prompts, device=self.device, num_images_per_prompt=1, do_classifier_free_guidance=False
        )
        side = self.image_spec.size
        sizes = torch.tensor([[side, side, 0, 0, side, side]] * len(prompts), dtype=found.dtype, device=self.device)
        added = {"text_embeds": pooled, "time_ids": sizes}
        return Condition({"encoder_hidden_states": found, "added_cond_kwargs": added})

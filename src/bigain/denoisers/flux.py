"""FLUX.1: CLIP and T5 text, packed latents, and guidance as an input of the network."""

from typing import Any

import torch

from bigain.denoisers.base import Condition
from bigain.denoisers.flow import PackedDenoiser
from bigain.denoisers.pipeline import PIPELINES
from bigain.models.packed import positions


@PIPELINES.register("FluxPipeline")
class FluxDenoiser(PackedDenoiser):
    """FLUX.1: classes are prompts.

    FLUX.1-dev is distilled from a model with classifier-free guidance, whose scale is an input. Generation gives it
    `guidance_scale`, by default 3.5. Classification gives it 1, which stands for the prompt's own prediction: its
    error, and not that of an exaggerated one, tells how well the prompt fits.
    FLUX.1-schnell has no such input; a `guidance_scale` above 1 is classifier-free guidance, the pipeline's
    `true_cfg_scale`.
    """

    models = ("transformer", "vae", "text_encoder", "text_encoder_2")
    others = ("scheduler", "tokenizer", "tokenizer_2")

    def __init__(self, pipeline: Any, image_size: int | None = None) -> None:
        super().__init__(pipeline, image_size)
        self.guidance_scale = 3.5 if self._distilled else 1.0

    @property
    def _distilled(self) -> bool:
        return self.network.config.guidance_embeds

    def guided(self, condition: Condition, scale: float) -> tuple[Condition, float]:
        if self._distilled:
            guidance = torch.full_like(condition.values["guidance"], scale)
            return Condition(condition.values | {"guidance": guidance}), 1.0
        if scale < 1:
            raise ValueError(
                f"guidance_scale must be at least 1 for this {type(self.pipeline).__name__}, got {scale:g}; its "
                "network takes no guidance, and 1 means none"
            )
        return condition, scale

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, pooled, _ = self.pipeline.encode_prompt(
            prompts, device=self.device, max_sequence_length=self.prompt_tokens
        )
        values = {"encoder_hidden_states": found, "pooled_projections": pooled}
        if self._distilled:
            values["guidance"] = torch.ones(len(prompts), device=self.device)
        return Condition(values)

    def _arguments(self, height: int, width: int, values: dict[str, Any]) -> dict[str, Any]:
        text = torch.zeros(values["encoder_hidden_states"].shape[1], 3, device=self.device)
        return values | {"txt_ids": text, "img_ids": positions(height, width, device=self.device)}

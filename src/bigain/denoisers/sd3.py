"""Stable Diffusion 3 and 3.5: two CLIPs, and T5 where the pipeline has it."""

from typing import Any

import torch

from bigain.denoisers.base import Condition
from bigain.denoisers.flow import FlowDenoiser
from bigain.denoisers.pipeline import PIPELINES


@PIPELINES.register("StableDiffusion3Pipeline")
class SD3Denoiser(FlowDenoiser):
    """Stable Diffusion 3 and 3.5: classes are prompts. Without T5 its part of the prompt is zero."""

    models = ("transformer", "vae", "text_encoder", "text_encoder_2")
    others = ("scheduler", "tokenizer", "tokenizer_2")
    optional_models = ("text_encoder_3",)
    optional_others = ("tokenizer_3",)
    guidance_scale = 7.0
    prompt_tokens = 256 + 77

    def __init__(self, pipeline: Any, image_size: int | None = None) -> None:
        super().__init__(pipeline, image_size)
        if pipeline.text_encoder_3 is not None and pipeline.tokenizer_3 is None:
            raise ValueError(
                f"{type(pipeline).__name__} has text_encoder_3 without tokenizer_3; load both, or neither for prompts "
                "without T5"
            )

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, _, pooled, _ = self.pipeline.encode_prompt(
            prompts, None, None, device=self.device, do_classifier_free_guidance=False
        )
        return Condition({"encoder_hidden_states": found, "pooled_projections": pooled})

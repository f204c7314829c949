"""PixArt-alpha and PixArt-Sigma: T5 text."""

import torch
from torch import Tensor

from bigain.denoisers.base import Condition
from bigain.denoisers.pipeline import PIPELINES
from bigain.denoisers.stable_diffusion import TextDenoiser


@PIPELINES.register("PixArtAlphaPipeline")
@PIPELINES.register("PixArtSigmaPipeline")
class PixArtDenoiser(TextDenoiser):
    """PixArt: T5 text with its mask, and the image size if the network was trained with it."""

    models = ("transformer", "vae", "text_encoder")
    default_scheduler = "dpm++"
    guidance_scale = 4.5

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, mask, _, _ = self.pipeline.encode_prompt(prompts, do_classifier_free_guidance=False, device=self.device)
        added: dict[str, Tensor | None] = {"resolution": None, "aspect_ratio": None}
        if self.network.use_additional_conditions:
            ratio = torch.ones(len(prompts), 1, dtype=found.dtype, device=self.device)
            added = {"resolution": (ratio * self.image_spec.size).repeat(1, 2), "aspect_ratio": ratio}
        return Condition({"encoder_hidden_states": found, "encoder_attention_mask": mask, "added_cond_kwargs": added})

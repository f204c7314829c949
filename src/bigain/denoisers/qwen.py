"""Qwen-Image: a language model's text with its mask, packed latents, and a VAE for videos."""

from typing import Any

import torch
from torch import Tensor

from bigain.denoisers.base import Condition
from bigain.denoisers.flow import PackedDenoiser, pack, unpack
from bigain.denoisers.pipeline import PIPELINES

TEXT, MASK = "encoder_hidden_states", "encoder_hidden_states_mask"


@PIPELINES.register("QwenImagePipeline")
class QwenDenoiser(PackedDenoiser):
    """Qwen-Image: classes are prompts. `guidance_scale` is the pipeline's `true_cfg_scale`."""

    models = ("transformer", "vae", "text_encoder")
    guidance_scale = 4.0

    def unconditional(self, rows: int) -> Condition:
        """A space, as its authors recommend."""
        return self._embed([" "]).take(torch.zeros(rows, dtype=torch.int64, device=self.device))

    def guide(self, conditional: Tensor, unconditional: Tensor, scale: float) -> Tensor:
        """Classifier-free guidance, with each token as long as without: (B, C, H, W), (B, C, H, W) -> (B, C, H, W)."""
        guided = pack(super().guide(conditional, unconditional, scale))
        length = pack(conditional).norm(dim=-1, keepdim=True) / guided.norm(dim=-1, keepdim=True)
        return unpack(guided * length, *conditional.shape[2:])

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, mask = self.pipeline.encode_prompt(prompts, device=self.device, max_sequence_length=self.prompt_tokens)
        if mask is None:  # all of it is text
            mask = torch.ones(found.shape[:2], dtype=torch.int64, device=self.device)
        return Condition({TEXT: found, MASK: mask})

    def _arguments(self, height: int, width: int, values: dict[str, Any]) -> dict[str, Any]:
        mask = None if values[MASK].all() else values[MASK]  # attention is faster without
        return values | {MASK: mask, "img_shapes": [[(1, height, width)]] * len(values[TEXT])}

    def _to_latents(self, images: Tensor) -> Tensor:
        return self.vae.encode(images[:, :, None]).latent_dist.mean[:, :, 0]

    def _to_images(self, latents: Tensor) -> Tensor:
        return self.vae.decode(latents[:, :, None]).sample[:, :, 0]

    @property
    def _channels(self) -> tuple[int, int]:
        return self.vae.config.get("input_channels", 3), self.vae.config.z_dim

    @property
    def _shift(self) -> Tensor:
        return torch.tensor(self.vae.config.latents_mean, device=self.device)[:, None, None]

    @property
    def _scale(self) -> Tensor:
        return 1 / torch.tensor(self.vae.config.latents_std, device=self.device)[:, None, None]

"""Class-conditional noise predictors of the bundled kind: a plain diffusers model and, for a U-Net, its prompts."""

from typing import Any

import diffusers
import torch
from torch import Tensor, nn


class LabelledModel(nn.Module):
    """A diffusers model that predicts noise from (noisy latents, t, label); the last label means "no label"."""

    def __init__(self, model: nn.Module, classes: int, prompts: Tensor | None = None) -> None:
        super().__init__()
        self.model = model
        self.classes = classes
        self.prompts = None if prompts is None else nn.Parameter(prompts)

    def forward(self, noisy: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        """(B, C, H, W), (B,), (B,) -> (B, C, H, W)."""
        if self.prompts is None:
            return self.model(noisy, t, class_labels=labels).sample
        return self.model(noisy, t, encoder_hidden_states=self.prompts[labels]).sample


def build_labelled(family: str, architecture: dict[str, Any], classes: int, prompt_tokens: int = 0) -> LabelledModel:
    """A freshly initialised model of the family, from torch's global generator."""
    if family == "dit":
        return LabelledModel(diffusers.DiTTransformer2DModel(**architecture), classes)
    if family == "unet":
        model = diffusers.UNet2DConditionModel(**architecture)
        prompts = 0.5 * torch.randn(classes + 1, prompt_tokens, architecture["cross_attention_dim"])
        return LabelledModel(model, classes, prompts)
    raise ValueError(f"no bundled family {family!r}; there are dit, unet")

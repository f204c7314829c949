"""Latents at the end of a sampling run."""

from typing import Any

from torch import Tensor

from bigain.denoisers.base import Denoiser
from bigain.generation import Sampling, denoise, image_generator


def sample(denoiser: Denoiser, noise: Tensor, condition: Any, sampling: Sampling) -> Tensor:
    """(B, C, H, W) -> (B, C, H, W)."""
    generators = [image_generator(sampling.seed, number) for number in range(len(noise))]
    *_, last = denoise(denoiser, noise, condition, sampling, generators, first=0)
    return last.latents

"""A VAE without weights: pixel-unshuffle with the interface of a diffusers VAE."""

from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Exact(NamedTuple):
    """A latent distribution without variance, with the names of diffusers."""

    mean: Tensor

    def mode(self) -> Tensor:
        return self.mean

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.mean


class Encoded(NamedTuple):
    latent_dist: Exact


class Decoded(NamedTuple):
    sample: Tensor


class PixelCodec:
    """(B, c, s·H, s·W) <-> (B, c·s², H, W), exactly invertible."""

    def __init__(self, channels: int, stride: int = 2) -> None:
        self.channels = channels
        self.stride = stride
        self.config = SimpleNamespace(scaling_factor=1.0, in_channels=channels, latent_channels=channels * stride**2)

    def encode(self, images: Tensor) -> Encoded:
        return Encoded(Exact(F.pixel_unshuffle(images, self.stride)))

    def decode(self, latents: Tensor) -> Decoded:
        return Decoded(F.pixel_shuffle(latents, self.stride))

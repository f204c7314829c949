"""Radial power spectra: how much of a set of images is coarse and how much is fine."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.metrics.images import checked

ROUNDING = (2 / 255) ** 2 / 12  # power of the rounding to 8 bits, below which nothing is heard


class Spectrum(NamedTuple):
    """Mean power of rings of the Fourier plane, from the mean outwards to the corners."""

    frequency: np.ndarray  # (R,) cycles a pixel
    power: np.ndarray  # (R,) white noise of variance v has power v in every ring
    sizes: np.ndarray  # (R,) frequencies in the ring; they sum to H · W

    @property
    def decibels(self) -> np.ndarray:
        return 10 * np.log10(np.maximum(self.power, ROUNDING))


def radial_spectrum(images: Tensor) -> Spectrum:
    """Mean over images, channels and directions of |F|² / (H W): (B, 1 or 3, H, W) in [-1, 1] -> spectrum.

    Rings are one cycle along the shorter side wide. No window is applied, so that the power of all frequencies has the
    mean of the squared pixels as its mean.
    """
    images = checked(images)
    height, width = images.shape[2:]
    power = torch.fft.fft2(images, norm="ortho").abs().square().mean((0, 1)).cpu().numpy()
    radius = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :])
    ring = np.rint(radius * min(height, width)).astype(int).ravel()
    sizes = np.bincount(ring)
    frequency = np.arange(len(sizes)) / min(height, width)
    return Spectrum(frequency, np.bincount(ring, power.ravel()) / sizes, sizes)


def spectral_distance(a: Spectrum, b: Spectrum) -> float:
    """Root mean square difference in decibels over the rings above zero and up to half a cycle a pixel."""
    if not np.array_equal(a.frequency, b.frequency):
        raise ValueError(
            f"spectra must be compared at one image size, got {int(a.sizes.sum())} and {int(b.sizes.sum())} pixels "
            f"in {len(a.sizes)} and {len(b.sizes)} rings"
        )
    rings = (a.frequency > 0) & (a.frequency <= 0.5)
    return float(np.sqrt(np.square(a.decibels - b.decibels)[rings].mean()))

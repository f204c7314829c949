"""The ten token scores of the paper's appendix: high means detail, low means smooth. (B, N, C) -> (B, N).

Scores are float32, or float64 for float64 tokens.

The two cosine scores are similarities in the paper's table, where low means detail; here they are negated so that
every score points the same way.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from bigain.registry import Registry
from bigain.tokens.constants import arange
from bigain.tokens.grid import Grid
from bigain.tokens.precision import sum_dtype, widen

Scorer = Callable[[Tensor, Grid], Tensor]
SCORERS: Registry[Scorer] = Registry("scorer")


def laplacian(x: Tensor, grid: Grid, padding: Literal["zero", "replicate"] = "zero") -> Tensor:
    """X * L of eq. (7), one depthwise convolution: (B, N, C) -> (B, C, H, W).

    Zero padding makes every border look detailed (a constant field of value v gives 0 inside, |v| at an edge,
    2|v| in a corner before the reduction over channels); replicate padding does not.
    """
    channels = x.shape[-1]
    maps = as_maps(x, grid)
    kernel = torch.tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]], dtype=x.dtype, device=x.device)
    kernel = kernel.expand(channels, 1, 3, 3)
    if padding == "replicate":
        return F.conv2d(F.pad(maps, (1, 1, 1, 1), mode="replicate"), kernel, groups=channels)
    return F.conv2d(maps, kernel, padding=1, groups=channels)


def as_maps(x: Tensor, grid: Grid) -> Tensor:
    """(B, N, C) -> (B, C, H, W), a channels-last view."""
    return x.unflatten(1, grid).permute(0, 3, 1, 2)


@SCORERS.register("laplacian_l1")
def laplacian_l1(x: Tensor, grid: Grid) -> Tensor:
    """Mean over channels of |Laplacian|, zero padding: the paper's choice."""
    return laplacian(x, grid).abs().mean(1, dtype=sum_dtype(x.dtype)).flatten(1)


@SCORERS.register("laplacian_l1_replicate")
def laplacian_l1_replicate(x: Tensor, grid: Grid) -> Tensor:
    """Mean over channels of |Laplacian|, replicate padding."""
    return laplacian(x, grid, "replicate").abs().mean(1, dtype=sum_dtype(x.dtype)).flatten(1)


@SCORERS.register("laplacian_l2")
def laplacian_l2(x: Tensor, grid: Grid) -> Tensor:
    """Root mean square of the Laplacian over channels, zero padding."""
    return widen(laplacian(x, grid)).square().mean(1).sqrt().flatten(1)


@SCORERS.register("laplacian_l2_replicate")
def laplacian_l2_replicate(x: Tensor, grid: Grid) -> Tensor:
    """Root mean square of the Laplacian over channels, replicate padding."""
    return widen(laplacian(x, grid, "replicate")).square().mean(1).sqrt().flatten(1)


@SCORERS.register("mean_deviation")
def mean_deviation(x: Tensor, grid: Grid) -> Tensor:
    """Distance from the mean token."""
    x = widen(x)
    return (x - x.mean(1, keepdim=True)).norm(dim=-1)


@SCORERS.register("l1_norm")
def l1_norm(x: Tensor, grid: Grid) -> Tensor:
    """Sum of absolute values."""
    return widen(x).abs().sum(-1)


@SCORERS.register("l2_norm")
def l2_norm(x: Tensor, grid: Grid) -> Tensor:
    """Euclidean length."""
    return widen(x).norm(dim=-1)


@SCORERS.register("channel_variance")
def channel_variance(x: Tensor, grid: Grid) -> Tensor:
    """Variance over the channels of a token."""
    return widen(x).var(-1, correction=0)


@SCORERS.register("dft_centroid")
def dft_centroid(x: Tensor, grid: Grid) -> Tensor:
    """Centre of mass of the channel spectrum, bins counted from 1 as in the paper."""
    amplitude = spectrum(x)
    bins = arange(x.shape[-1], x.device).to(amplitude.dtype) + 1
    return (amplitude * bins).sum(-1) / amplitude.sum(-1).clamp_min(torch.finfo(torch.float32).tiny)


@SCORERS.register("dft_amplitude")
def dft_amplitude(x: Tensor, grid: Grid) -> Tensor:
    """Sum of the channel spectrum's amplitudes."""
    return spectrum(x).sum(-1)


@SCORERS.register("neighbour_cosine")
def neighbour_cosine(x: Tensor, grid: Grid) -> Tensor:
    """Minus the mean cosine to the up to four neighbours inside the grid."""
    maps = F.normalize(widen(x), dim=-1).unflatten(1, grid)
    down = (maps[:, 1:] * maps[:, :-1]).sum(-1)
    right = (maps[:, :, 1:] * maps[:, :, :-1]).sum(-1)
    total = F.pad(down, (0, 0, 0, 1)) + F.pad(down, (0, 0, 1, 0)) + F.pad(right, (0, 1)) + F.pad(right, (1, 0))
    down, right = torch.ones_like(down[:1]), torch.ones_like(right[:1])
    count = F.pad(down, (0, 0, 0, 1)) + F.pad(down, (0, 0, 1, 0)) + F.pad(right, (0, 1)) + F.pad(right, (1, 0))
    return -(total / count.clamp_min(1)).flatten(1)


@SCORERS.register("mean_cosine")
def mean_cosine(x: Tensor, grid: Grid) -> Tensor:
    """Minus the cosine to the mean token."""
    x = widen(x)
    return -F.cosine_similarity(x, x.mean(1, keepdim=True), dim=-1)


def spectrum(x: Tensor) -> Tensor:
    """Amplitudes of the discrete Fourier transform over channels: (B, N, C) -> (B, N, C)."""
    half = torch.view_as_real(torch.fft.rfft(widen(x))).square().sum(-1).sqrt()
    mirrored = half[..., 1 : (x.shape[-1] + 1) // 2].flip(-1)
    return torch.cat([half, mirrored], -1)

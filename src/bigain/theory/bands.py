"""Rings of the Fourier plane over a token grid, and the power of maps in each of them."""

import torch
from torch import Tensor
from torch.nn import functional as F

from bigain.tokens.constants import constant
from bigain.tokens.grid import Grid


def check_bands(count: int, grid: Grid) -> None:
    """Check that each ring of a grid has a frequency."""
    most = min(grid) // 2 + 1
    if not 2 <= count <= most:
        raise ValueError(f"bands must be from 2 to {most} on a grid of {grid} tokens, got {count}")


def band_edges(count: int) -> list[float]:
    """Lower ends of the rings in cycles a token; the last has all from half a cycle on, with the corners: -> (K,)."""
    return [0.5 * i / (count - 1) for i in range(count)]


@constant
def rings(grid: Grid, count: int, spacing: int, device: torch.device) -> Tensor:
    """1 where a frequency belongs to a ring: () -> (H·W, K).

    `spacing` says how many tokens of the finest grid a token of this one is wide; a coarser grid has the lower rings.
    """
    down, right = (torch.fft.fftfreq(side, dtype=torch.float64, device=device) for side in grid)
    radius = torch.hypot(down[:, None], right[None, :]).flatten() / spacing
    ring = (radius * 2 * (count - 1) + 1e-9).long().clamp_max(count - 1)
    return F.one_hot(ring, count).double()


def frequencies(grid: Grid, count: int) -> Tensor:
    """How many frequencies each ring has: -> (K,)."""
    return rings(grid, count, 1, torch.device("cpu")).sum(0)


def by_patch(maps: Tensor, patch: int) -> Tensor:
    """Latents as tokens that are `patch` latents wide: (..., C, H, W) -> (..., C·p·p, H/p, W/p)."""
    return maps if patch == 1 else F.pixel_unshuffle(maps, patch)


def band_powers(a: Tensor, b: Tensor, count: int, spacing: int = 1) -> Tensor:
    """The inner product of two sets of maps, ring by ring: (..., C, H, W) twice -> (..., K), float64.

    The transform is orthonormal, so the rings sum to the sum of a · b (Parseval), and to that of squares for a = b.
    """
    fa = torch.fft.fft2(a, norm="ortho")
    fb = fa if b is a else torch.fft.fft2(b, norm="ortho")
    products = (fa.real * fb.real + fa.imag * fb.imag).sum(-3)
    height, width = a.shape[-2:]
    return products.flatten(-2).double() @ rings(Grid(height, width), count, spacing, a.device)


def band_errors(residuals: Tensor, count: int, patch: int = 1) -> Tensor:
    """Mean squared residuals by ring: (..., C, H, W) -> (..., K); their sum over rings is the mean square."""
    maps = by_patch(residuals.double(), patch)
    channels, height, width = maps.shape[-3:]
    return band_powers(maps, maps, count) / (channels * height * width)

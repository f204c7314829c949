"""Checks of image batches."""

import torch
from torch import Tensor

SLACK = 1e-3  # beyond [-1, 1], for rounding in half precision


def checked(images: Tensor) -> Tensor:
    """Images in double precision, (B, 1 or 3, H, W) in [-1, 1], or an error."""
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.is_floating_point() or images.numel() == 0:
        raise ValueError(
            f"images must be floating-point (B, 1 or 3, H, W) in [-1, 1], got {images.dtype} {tuple(images.shape)}"
        )
    low, high = (float(value) for value in torch.aminmax(images))
    if not (low >= -1 - SLACK and high <= 1 + SLACK):
        raise ValueError(f"images must be in [-1, 1], got values from {low:.4g} to {high:.4g}")
    return images.double().clamp(-1, 1)


def checked_pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches of the same shape, image against image."""
    if a.shape != b.shape:
        raise ValueError(
            f"images are compared one by one and need one shape, got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return checked(a), checked(b)

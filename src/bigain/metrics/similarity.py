"""How far an image is from the uncompressed image of the same seed, one number per image."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bigain.metrics.images import checked_pair

RANGE = 2.0  # from -1 to 1
WINDOW, SIGMA = 11, 1.5


def psnr(a: Tensor, b: Tensor) -> np.ndarray:
    """Peak signal-to-noise ratio in decibels, infinite for equal images: (B, c, H, W), (B, c, H, W) -> (B,)."""
    a, b = checked_pair(a, b)
    error = (a - b).square().mean((1, 2, 3))
    return (10 * torch.log10(RANGE**2 / error)).cpu().numpy()


def ssim(a: Tensor, b: Tensor) -> np.ndarray:
    """Structural similarity, 1 for equal images: (B, c, H, W), (B, c, H, W) -> (B,).

    Wang et al. 2004: Gaussian window of 11 x 11 with sigma 1.5, K = 0.01 and 0.03, images mirrored at their edges, mean
    over all places and channels (as in torchmetrics).
    """
    a, b = checked_pair(a, b)
    if min(a.shape[2:]) <= WINDOW // 2:
        raise ValueError(
            f"a window of {WINDOW} x {WINDOW} needs images of {WINDOW // 2 + 1} pixels a side or more; "
            f"got {a.shape[2]} x {a.shape[3]}"
        )
    mean_a, mean_b = _blur(a), _blur(b)
    var_a, var_b = _blur(a * a) - mean_a**2, _blur(b * b) - mean_b**2
    cov = _blur(a * b) - mean_a * mean_b
    c1, c2 = (0.01 * RANGE) ** 2, (0.03 * RANGE) ** 2
    light = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    structure = (2 * cov + c2) / (var_a + var_b + c2)
    return (light * structure).mean((1, 2, 3)).cpu().numpy()


def _blur(x: Tensor) -> Tensor:
    """Weighted mean under the window at every place: (B, c, H, W) -> (B, c, H, W)."""
    offsets = torch.arange(WINDOW, dtype=x.dtype, device=x.device) - WINDOW // 2
    weights = torch.exp(-(offsets**2) / (2 * SIGMA**2))
    weights = (weights / weights.sum()).expand(x.shape[1], 1, 1, WINDOW)
    x = F.pad(x, (WINDOW // 2,) * 4, mode="reflect")
    rows = F.conv2d(x, weights, groups=x.shape[1])
    return F.conv2d(rows, weights.mT.reshape(-1, 1, WINDOW, 1), groups=x.shape[1])

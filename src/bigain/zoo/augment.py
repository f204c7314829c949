"""Random views of training images, for datasets that are small."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Augmentation:
    """Mirrored, shifted by whole pixels, and a share of the images turned and scaled; the background is black."""

    mirror: float = 0.5  # the share of images that is mirrored
    shift: int = 2  # pixels in each direction, at most
    affine: float = 0.5  # the share that is turned and scaled, which softens thin strokes
    rotation: float = 12.0  # degrees, at most
    scale: float = 0.15  # how much larger or smaller, at most


def augmented(images: Tensor, augmentation: Augmentation, generator: torch.Generator) -> Tensor:
    """A random view of each image, about the middle of what it shows: (B, c, s, s) in [-1, 1] -> the same."""
    rows, side = len(images), images.shape[-1]

    def uniform(limit: float) -> Tensor:
        return (2 * torch.rand(rows, generator=generator) - 1) * limit

    turned = torch.rand(rows, generator=generator) < augmentation.affine
    angle = uniform(math.radians(augmentation.rotation)) * turned
    size = torch.where(turned, 1 + uniform(augmentation.scale), torch.ones(()))
    mirror = torch.where(torch.rand(rows, generator=generator) < augmentation.mirror, -1.0, 1.0)
    shift = torch.randint(-augmentation.shift, augmentation.shift + 1, (rows, 2), generator=generator) * (2 / side)
    cos, sin = angle.cos() / size, angle.sin() / size
    turn = torch.stack([torch.stack([cos * mirror, -sin], 1), torch.stack([sin * mirror, cos], 1)], 1)
    middle = middles(images)
    moved = middle + shift - (turn @ middle[..., None])[..., 0]
    grid = F.affine_grid(torch.cat([turn, moved[..., None]], 2), list(images.shape), align_corners=False)
    return (F.grid_sample(images + 1, grid, mode="bicubic", align_corners=False) - 1).clamp(-1, 1)


def middles(images: Tensor) -> Tensor:
    """The middle of the box around what is not background: (B, c, s, s) in [-1, 1] -> (B, 2), x and y in [-1, 1]."""
    side = images.shape[-1]
    ink = (images > -0.5).any(1)
    place = (torch.arange(side) * 2 + 1) / side - 1

    def middle(seen: Tensor) -> Tensor:  # (B, s) -> (B,)
        first = torch.where(seen, place, torch.ones(())).amin(1)
        last = torch.where(seen, place, -torch.ones(())).amax(1)
        return torch.where(seen.any(1), (first + last) / 2, torch.zeros(()))

    return torch.stack([middle(ink.any(1)), middle(ink.any(2))], 1)

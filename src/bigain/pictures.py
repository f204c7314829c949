"""Tensors in [-1, 1] as PIL images, and back."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def to_picture(image: Tensor) -> Image.Image:
    """(c, h, w) in [-1, 1] -> a grey or RGB PIL image."""
    pixels = ((image + 1) * 127.5).round().clamp(0, 255).byte().permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def from_picture(picture: Image.Image) -> Tensor:
    """A grey or RGB PIL image -> (c, h, w) in [-1, 1]."""
    pixels = torch.from_numpy(np.array(picture, dtype=np.float32)) / 127.5 - 1
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)


def contact_sheet(images: Tensor, columns: int, scale: int = 2) -> Image.Image:
    """A grid of images, row by row: (n, c, s, s) in [-1, 1] -> a PIL image."""
    n, channels, side, _ = images.shape
    rows = -(-n // columns)
    sheet = torch.full((rows * columns, channels, side, side), -1.0)
    sheet[:n] = images
    grid = sheet.view(rows, columns, channels, side, side).permute(2, 0, 3, 1, 4)
    picture = to_picture(grid.reshape(channels, rows * side, columns * side))
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)

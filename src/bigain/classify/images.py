"""Images from whatever the user has: paths, PIL images, arrays, tensors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.nn import functional as F

from bigain.backbones.denoiser import Frame

MODES = {1: "L", 3: "RGB"}


def to_tensor(image: Any, frame: Frame) -> Tensor:
    """One image as the model wants it: EXIF rotation, transparency over white, short side, centre crop, padding.

    -> (c, s, s) in [-1, 1]. A float tensor is (c, s, s) in [-1, 1] already; arrays and other tensors are uint8.
    """
    if isinstance(image, Tensor) and image.is_floating_point():
        return float_tensor(image, frame)
    picture = fit(to_pil(image), frame)
    pixels = torch.from_numpy(np.array(picture, dtype=np.float32)) / 127.5 - 1
    pixels = pixels[None] if frame.channels == 1 else pixels.permute(2, 0, 1)
    return F.pad(pixels, (frame.padding,) * 4, value=-1.0)


def to_tensors(images: Sequence[Any], frame: Frame) -> Tensor:
    """(n, c, s, s) in [-1, 1]."""
    return torch.stack([to_tensor(image, frame) for image in images])


def to_pil(image: Any) -> Image.Image:
    if isinstance(image, str | Path):
        try:
            with Image.open(image) as opened:
                opened.load()
                return ImageOps.exif_transpose(opened)
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
            raise ValueError(f"cannot read {image} as an image: {error}") from error
    if isinstance(image, Image.Image):
        return ImageOps.exif_transpose(image)
    array = image.cpu().numpy() if isinstance(image, Tensor) else image
    if not isinstance(array, np.ndarray):
        raise TypeError(f"an image is a path, a PIL image, an array or a tensor; got {type(image).__name__}")
    if isinstance(image, Tensor) and array.ndim == 3:
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or not array.size:
        raise ValueError(f"an array is uint8, (h, w) or (h, w, 1 | 3 | 4); got {array.dtype} {array.shape}")
    return Image.fromarray(array)


def fit(picture: Image.Image, frame: Frame) -> Image.Image:
    """Flatten transparency onto white, convert the colours, scale the short side, crop the centre."""
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    if picture.mode.startswith("I;16"):
        picture = Image.fromarray((np.asarray(picture) // 257).astype(np.uint8))
    elif picture.mode in ("I", "F"):
        raise ValueError(
            f"an image of mode {picture.mode} does not say which value is white; scale it to 8 or 16 bits a channel"
        )
    picture = picture.convert(MODES[frame.channels])
    width, height = picture.size
    scale = frame.size / min(width, height)
    if scale != 1:
        size = (max(frame.size, round(width * scale)), max(frame.size, round(height * scale)))
        picture = picture.resize(size, Image.Resampling.BICUBIC)
    left, top = (picture.width - frame.size) // 2, (picture.height - frame.size) // 2
    return picture.crop((left, top, left + frame.size, top + frame.size))


def float_tensor(image: Tensor, frame: Frame) -> Tensor:
    side = frame.size + 2 * frame.padding
    if image.shape != (frame.channels, side, side):
        raise ValueError(f"a float tensor is ({frame.channels}, {side}, {side}) in [-1, 1]; got {tuple(image.shape)}")
    if not (image.min() >= -1.001 and image.max() <= 1.001):
        raise ValueError(f"a float tensor is in [-1, 1]; got {image.min():.3g} to {image.max():.3g}")
    return image.float()

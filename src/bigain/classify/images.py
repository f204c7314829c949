"""Model inputs from paths, PIL images, arrays and tensors."""

import os
from collections.abc import Iterable, Mapping, Sequence
from io import IOBase
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.nn import functional as F

from bigain.denoisers.base import ImageSpec
from bigain.pictures import from_picture

MODES = {1: "L", 3: "RGB"}
CHANNELS = (1, 3, 4)
SLACK = 1e-3  # what rounding may put outside of the range of floats


def to_tensor(image: Any, image_spec: ImageSpec) -> Tensor:
    """One image as model input: EXIF rotation, transparency over white, resized short side, centre crop, padding.

    -> (c, s, s) in [-1, 1]. A float tensor must already be (c, s, s) in [-1, 1]. Arrays are (h, w) or
    (h, w, 1 | 3 | 4), of uint8, bool, or floats in [0, 1]; other tensors are uint8 or bool, (h, w) or
    (1 | 3 | 4, h, w).
    """
    if isinstance(image, Tensor) and image.is_floating_point():
        return float_tensor(image, image_spec)
    picture = fit(to_pil(image), image_spec)
    return F.pad(from_picture(picture), (image_spec.padding,) * 4, value=-1.0)


def to_tensors(images: Sequence[Any], image_spec: ImageSpec) -> Tensor:
    """(n, c, s, s) in [-1, 1]."""
    return torch.stack([to_tensor(image, image_spec) for image in images])


def to_pil(image: Any) -> Image.Image:
    if isinstance(image, str | os.PathLike):
        return open_image(Path(image))
    if isinstance(image, Image.Image):
        return ImageOps.exif_transpose(image)
    if isinstance(image, Tensor):
        return from_array(image.detach().cpu().numpy(), channels_first=True)
    if isinstance(image, np.ndarray):
        return from_array(image, channels_first=False)
    raise TypeError(f"an image must be a path, a PIL image, an array or a tensor, got {no_image(image)}")


def no_image(value: Any) -> str:
    """The type of something that is not an image, and what to do."""
    if isinstance(value, Mapping):
        return f"a {type(value).__name__}; pass the image inside it"
    if isinstance(value, bytes | bytearray | IOBase):
        return f"{type(value).__name__}; open it with PIL.Image.open"
    if isinstance(value, Iterable):
        return f"a {type(value).__name__}; pass images one by one, or pixels as a numpy array"
    return type(value).__name__


def open_image(path: Path) -> Image.Image:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"cannot read {path} as an image: it is not a regular file")  # a pipe would be waited for
    try:
        with Image.open(path) as opened:
            opened.load()
            return ImageOps.exif_transpose(opened)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise ValueError(f"cannot read {path} as an image: {error}") from error


def from_array(array: np.ndarray, *, channels_first: bool) -> Image.Image:
    """(h, w), (h, w, c) or (c, h, w); `channels_first` decides if both orders are possible."""
    if array.ndim == 4:
        raise ValueError(f"an image must be a single one, got a batch of shape {array.shape}; pass a list of images")
    if array.ndim == 3:
        first, last = (array.shape[axis] in CHANNELS for axis in (0, -1))
        if first and (channels_first or not last):
            array = np.moveaxis(array, 0, -1)
    if array.ndim not in (2, 3) or not array.size or (array.ndim == 3 and array.shape[-1] not in CHANNELS):
        raise ValueError(f"an array must be uint8, (h, w) or (h, w, 1 | 3 | 4), got {array.dtype} {array.shape}")
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    return Image.fromarray(np.ascontiguousarray(to_bytes(array)))


def to_bytes(array: np.ndarray) -> np.ndarray:
    """uint8 as it is; bools and floats in [0, 1] scaled: any shape -> same."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * 255
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(
            f"an array must be uint8, or floats in [0, 1], got {array.dtype} {array.shape}; convert values of "
            "0 to 255 to uint8"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"an array of floats must be in [0, 1], got NaN or infinite values in {array.shape}")
    low, high = float(array.min()), float(array.max())
    if low < -SLACK or high > 1 + SLACK:
        advice = "divide it by 255" if low >= 0 else "scale it to [0, 1], or pass a float tensor in [-1, 1]"
        raise ValueError(f"an array of floats must be in [0, 1], got {low:.3g} to {high:.3g}; {advice}")
    return (array.astype(np.float64).clip(0, 1) * 255).round().astype(np.uint8)


def fit(picture: Image.Image, image_spec: ImageSpec) -> Image.Image:
    """Flatten transparency onto white, convert the colours, scale the short side, crop the centre."""
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    if picture.mode.startswith("I;16"):
        picture = Image.fromarray((np.asarray(picture) // 257).astype(np.uint8))
    elif picture.mode in ("I", "F"):
        raise ValueError(
            f"an image of mode {picture.mode} does not define white; convert it to 8 or 16 bits per channel"
        )
    picture = picture.convert(MODES[image_spec.channels])
    width, height = picture.size
    scale = image_spec.size / min(width, height)
    if scale != 1:
        size = (max(image_spec.size, round(width * scale)), max(image_spec.size, round(height * scale)))
        picture = picture.resize(size, Image.Resampling.BICUBIC)
    left, top = (picture.width - image_spec.size) // 2, (picture.height - image_spec.size) // 2
    return picture.crop((left, top, left + image_spec.size, top + image_spec.size))


def float_tensor(image: Tensor, image_spec: ImageSpec) -> Tensor:
    """Check a float tensor of the model's size and range: (c, s, s) -> same, float32."""
    side = image_spec.size + 2 * image_spec.padding
    if image.shape != (image_spec.channels, side, side):
        raise ValueError(
            f"a float tensor must be ({image_spec.channels}, {side}, {side}) in [-1, 1], got {tuple(image.shape)}; "
            "pass a path, a PIL image or uint8 to have it resized"
        )
    if not image.isfinite().all():
        raise ValueError("a float tensor must be in [-1, 1], got NaN or infinite values")
    low, high = (float(end) for end in image.detach().aminmax())
    if low < -1 - SLACK or high > 1 + SLACK:
        advice = "; for values from 0 to 255 use image / 127.5 - 1" if low >= 0 else ""
        raise ValueError(f"a float tensor must be in [-1, 1], got {low:.3g} to {high:.3g}{advice}")
    return image.float()

"""Images from any iterable, one after the other."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from bigain.checks import shortened
from bigain.classify.images import to_tensor
from bigain.denoisers.base import ImageSpec

Unreadable = Callable[[int, ValueError], None]  # gets the number of an image and the error


def each_image(images: Any) -> Iterator[Any]:
    """The images of a list, a generator, an array (n, …) or a dataset; anything else raises."""
    if isinstance(images, str | bytes | Path | Image.Image) or is_one(images):
        came = f"{type(images).__name__} {images.shape}" if hasattr(images, "shape") else repr(images)
        raise TypeError(f"images must be a list, like classifier([image]), got {shortened(came)}")
    if isinstance(images, Mapping):
        raise TypeError("images must be a list, got a dict; use list(images.values())")
    if not isinstance(images, Iterable):
        raise TypeError(f"images must be a list or another iterable, got {shortened(repr(images))}")
    return iter(images)


def readable(
    images: Iterator[Any], image_spec: ImageSpec, unreadable: Unreadable | None
) -> Iterator[tuple[int, Tensor]]:
    """Numbers and pixels of the images that can be read: (c, s, s) each."""
    for number, image in enumerate(images):
        try:
            pixels = to_tensor(image, image_spec)
        except ValueError as error:
            if unreadable is None:
                raise
            unreadable(number, error)
        else:
            yield number, pixels


def is_one(images: Any) -> bool:
    """Whether an array is a single image: (h, w), (h, w, 3) or (h, w, 4); (n, h, w) are n grey ones."""
    if isinstance(images, np.ndarray):
        return images.ndim < 3 or (images.ndim == 3 and images.shape[-1] in (1, 3, 4))
    return isinstance(images, Tensor) and images.ndim < 3

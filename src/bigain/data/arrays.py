"""Labelled images in memory, for training."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bigain.data.dataset import Example


class LabelledImages(NamedTuple):
    """Images (N, H, W) or (N, H, W, 3) as uint8, labels (N,), and the names of the classes."""

    images: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]


def as_examples(found: LabelledImages, split: str, rows: Iterable[int]) -> tuple[Example, ...]:
    """Examples named after their split and their row in the official files; images are views, not copies."""
    triples = zip(rows, found.images, found.labels, strict=True)
    return tuple(Example(f"{split}-{row:05d}", image, (int(label),)) for row, image, label in triples)

"""Rows of a record: one classified or generated image."""

import zlib
from typing import NamedTuple

import numpy as np

MANY_CLASSES = 21  # from so many on, reports tell how often the true class is among the first five


class DecisionRow(NamedTuple):
    """One classified image."""

    image: str
    truth: tuple[int, ...]
    predicted: int
    ranking: tuple[int, ...]
    chances: tuple[float, ...]
    evaluations: int
    timesteps: tuple[int, ...]
    errors: np.ndarray | None
    seconds: float


class GeneratedRow(NamedTuple):
    """One generated image; `example` is its PNG if the record has it."""

    number: int
    subject: str
    hash: str
    example: bytes | None
    seconds: float


def pack(errors: np.ndarray | None) -> bytes | None:
    return None if errors is None else zlib.compress(errors.astype("<f4").tobytes())


def unpack(data: bytes | None, classes: int) -> np.ndarray | None:
    return None if data is None else np.frombuffer(zlib.decompress(data), "<f4").reshape(classes, -1)

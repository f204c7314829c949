"""Which operators act at which timesteps of a trajectory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from bigain.classify.trials import even_timesteps
from bigain.compression.setting import Compression
from bigain.defaults import NUM_TRAIN_TIMESTEPS
from bigain.models.windows import holds


class Size(TypedDict, total=False):
    """The size of a forward pass."""

    latent: tuple[int, int]
    text_tokens: int


Parts = tuple[Compression, ...]


def acting(parts: Sequence[Compression], t: float) -> Parts:
    """What acts at a timestep, without windows."""
    return tuple(replace(part, when=None) for part in parts if holds(part.when, t))


def alone(parts: Sequence[Compression]) -> Parts:
    """What acts where each row has its own plans, as in generation."""
    return tuple(replace(part, groups=None, correct=False) for part in parts)


def usual_timesteps(parts: Sequence[Compression]) -> list[int]:
    """Timesteps whose mean stands for all: one where windows do not matter, else evenly spaced ones."""
    return even_timesteps(NUM_TRAIN_TIMESTEPS, 100) if any(part.when for part in parts) else [0]

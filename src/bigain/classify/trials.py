"""Trials: the (t, noise) pairs on which all classes of an image are compared."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Trial(NamedTuple):
    """One comparison: a time step and the number of its noise; `sign` -1 is the mirrored noise of the same number."""

    t: int
    number: int
    sign: int = 1


def even_steps(timesteps: int, most: int) -> list[int]:
    """Evenly spaced time steps, in the middle of their intervals: 1000, 20 -> 25, 75, ..., 975."""
    if not 1 <= most <= timesteps:
        raise ValueError(f"the number of trials is from 1 to {timesteps}, the time steps of the model; got {most}")
    width = timesteps // most
    return list(range(width // 2, timesteps, width))[:most]


def staged_steps(timesteps: int, stages: Sequence[int]) -> list[list[int]]:
    """New time steps of each stage: every (m // n)-th of the m evenly spaced ones, from the middle, if not done.

    1000, [5, 20] -> [125, 325, 525, 725, 925], [25, 75, 175, ..., 975]. Where a stage does not divide the last,
    the sets do not nest and its survivors have more trials than the stage's number, as in the reference.
    """
    steps = even_steps(timesteps, max(stages))
    done: set[int] = set()
    found = []
    for count in stages:
        stride = len(steps) // count
        new = [t for t in steps[stride // 2 :: stride][:count] if t not in done]
        done.update(new)
        found.append(new)
    return found


def shuffled(steps: Sequence[int], image: int) -> list[int]:
    """The same time steps in an order that depends on the image only."""
    order = torch.randperm(len(steps), generator=torch.Generator().manual_seed(image >> 1))
    return [steps[i] for i in order.tolist()]


def fingerprint(image: Tensor) -> int:
    """A number that depends on the pixels only: (c, s, s) -> 64 bits."""
    data = image.detach().to("cpu", torch.float32).contiguous().numpy().tobytes()
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def draw_noise(seed: int, image: int, trial: Trial, shape: Sequence[int]) -> Tensor:
    """Noise from (seed, image, trial) only, so that batches, order and shards change nothing: -> shape."""
    words = f"{seed}/{image}/{trial.t}/{trial.number}".encode()
    number = int.from_bytes(hashlib.sha256(words).digest()[:8], "big") >> 1
    generator = torch.Generator().manual_seed(number)
    return trial.sign * torch.randn(tuple(shape), generator=generator)

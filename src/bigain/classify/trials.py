"""Trials: the (t, noise) pairs on which all classes of an image are compared."""

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.checks import whole
from bigain.profile import TimestepProfile
from bigain.seeds import hashed

DEFAULT_TRIALS = 20  # of policies that run on even or random timesteps


class Trial(NamedTuple):
    """One comparison: a timestep and the number of its noise; `sign` -1 is the mirrored noise of the same number.

    `weight` says how much its error counts, `spread` how far it scatters (see `TimestepProfile`). `final` trials are
    computed by the classifier's final denoiser, where it has one.
    """

    t: int
    number: int
    sign: int = 1
    weight: float = 1.0
    spread: float = 1.0
    final: bool = False

    @property
    def key(self) -> tuple[int, int, int]:
        """What its noise depends on."""
        return self.t, self.number, self.sign


def even_timesteps(num_train_timesteps: int, most: int) -> list[int]:
    """Evenly spaced timesteps, in the middle of their intervals: 1000, 20 -> 25, 75, ..., 975.

    As in the reference code the stride is an integer, so the last timesteps are not used if `most` does not divide
    their number: 1000, 300 -> 1, 4, ..., 898.
    """
    count = whole(most)
    if count is None or not 1 <= count <= num_train_timesteps:
        raise ValueError(
            f"trials must be from 1 to {num_train_timesteps}, the model's num_train_timesteps, got {most!r}"
        )
    stride = num_train_timesteps // count
    return list(range(stride // 2, num_train_timesteps, stride))[:count]


def staged_timesteps(num_train_timesteps: int, stages: Sequence[int]) -> list[list[int]]:
    """New timesteps of each stage: every (m // n)-th of the m evenly spaced ones, from the middle, if not used yet.

    1000, [5, 20] -> [125, 325, 525, 725, 925], [25, 75, 175, ..., 975]. If a stage does not divide the last,
    the sets do not nest and its survivors have more trials than the stage says, as in the reference code.
    """
    steps = even_timesteps(num_train_timesteps, max(stages))
    done: set[int] = set()
    found = []
    for count in stages:
        stride = len(steps) // count
        new = [t for t in steps[stride // 2 :: stride][:count] if t not in done]
        done.update(new)
        found.append(new)
    return found


Timesteps = Literal["even", "random"] | TimestepProfile


class TimestepSampler(NamedTuple):
    """The trials of one image.

    `timesteps` "even" spaces the timesteps evenly, as the reference code does; "random" draws them uniformly, as the
    paper's algorithm says; those of a profile are used in their order, and again from the start if they are too few.
    Random choices depend only on `key`, a hash of the seed and the image.
    """

    timesteps: Timesteps
    num_train_timesteps: int
    key: int = 0

    @property
    def trials(self) -> int:
        """The number of trials that a policy runs if it is not told how many."""
        return DEFAULT_TRIALS if isinstance(self.timesteps, str) else len(self.timesteps.timesteps)

    @property
    def fitted(self) -> bool:
        """Whether the spreads of the timesteps are known."""
        return isinstance(self.timesteps, TimestepProfile) and bool(self.timesteps.spreads)

    def stages(self, counts: Sequence[int]) -> list[list[Trial]]:
        """New trials of each stage, for increasing cumulative counts."""
        if self.timesteps == "even":
            return [[Trial(t, 0) for t in stage] for stage in staged_timesteps(self.num_train_timesteps, counts)]
        if isinstance(self.timesteps, TimestepProfile):
            trials = profiled(self.timesteps, counts[-1])
        else:
            drawn = torch.randint(self.num_train_timesteps, (counts[-1],), generator=self._generator())
            trials = numbered(drawn.tolist())
        return [trials[a:b] for a, b in itertools.pairwise([0, *counts])]

    def sequence(self, count: int) -> list[Trial]:
        """Trials one after the other; evenly spaced timesteps in an order shuffled for each image."""
        trials = self.stages([count])[0]
        if self.timesteps != "even":
            return trials
        return [trials[i] for i in torch.randperm(count, generator=self._generator()).tolist()]

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.key)


def numbered(timesteps: Sequence[int]) -> list[Trial]:
    """Trials at these timesteps; a repeated timestep gets new noise."""
    seen: dict[int, int] = {}
    trials = []
    for t in timesteps:
        trials.append(Trial(int(t), seen.get(t, 0)))
        seen[t] = seen.get(t, 0) + 1
    return trials


def profiled(profile: TimestepProfile, count: int) -> list[Trial]:
    """Trials of a profile, in its order, with weights and spreads."""
    places = [i % len(profile.timesteps) for i in range(count)]
    trials = numbered([profile.timesteps[i] for i in places])
    spreads = profile.spreads or (1.0,) * len(profile.timesteps)
    return [
        trial._replace(weight=profile.weights[i], spread=spreads[i]) for trial, i in zip(trials, places, strict=True)
    ]


CHOICES = '"even", "random", "fitted", a TimestepProfile, its JSON file or a sequence of ints'


def check_timesteps(timesteps: object, num_train_timesteps: int) -> Timesteps:
    """ "even", "random", or timesteps of the model as a profile; a sequence of ints has equal weights."""
    if isinstance(timesteps, np.ndarray | Tensor):
        timesteps = timesteps.tolist()
    if timesteps == "even" or timesteps == "random":
        return timesteps
    if isinstance(timesteps, Path) or (isinstance(timesteps, str) and timesteps.endswith(".json")):
        timesteps = TimestepProfile.load(timesteps)
    if isinstance(timesteps, TimestepProfile):
        check_range(timesteps.timesteps, num_train_timesteps)
        return timesteps
    if isinstance(timesteps, str) or not isinstance(timesteps, Sequence) or not len(timesteps):
        raise ValueError(f"timesteps must be {CHOICES}, got {timesteps!r}")
    check_range(timesteps, num_train_timesteps)
    return TimestepProfile(tuple(int(t) for t in timesteps), (1.0,) * len(timesteps))


def check_range(timesteps: Sequence[Any], num_train_timesteps: int) -> None:
    wrong = [t for t in timesteps if not is_timestep(t, num_train_timesteps)]
    if wrong:
        raise ValueError(f"timesteps must be ints from 0 to {num_train_timesteps - 1}, got {wrong[0]!r}")


def is_timestep(t: object, num_train_timesteps: int) -> bool:
    """Whether a value is a timestep of the model; 25.0 is, because `numpy.linspace` returns floats."""
    number = int(t) if isinstance(t, float) and t.is_integer() else whole(t)
    return number is not None and 0 <= number < num_train_timesteps


def fingerprint(image: Tensor) -> int:
    """A number that depends on the pixels only: (c, s, s) -> 64 bits."""
    data = image.detach().to("cpu", torch.float32).contiguous().numpy().tobytes()
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def draw_noise(seed: int, image: int, trial: Trial, shape: Sequence[int]) -> Tensor:
    """Noise from (seed, image, trial) only, so batches, order and shards do not change it: -> shape."""
    generator = torch.Generator().manual_seed(hashed(seed, image, trial.t, trial.number))
    return trial.sign * torch.randn(tuple(shape), generator=generator)

"""Stages of the denoising trajectory, in closed form from the noise schedule, and how sparse each may be.

The score of a timestep is MosaicDiff's E‖∇‖ + lambda · ln SNR(t). For x_t = cos θ(t) x_0 + sin θ(t) eps and data of
unit variance, the mean squared distance of a sample from where it ends is E‖x_t - x_0‖² = 2 (1 - cos θ(t)) per value,
with cos θ = √ᾱ. E‖∇‖ is how fast it changes, 2 |d cos θ / dt|: little at both ends, most in the middle, where a sample
takes its shape. Both terms are divided by their largest absolute value, and the score is scaled to [0, 1]. A flow's x_t
is first divided by its norm √(signal² + noise²).
"""

import bisect
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bigain.denoisers.schedule import Schedule

LEAST = 1e-3  # level of signal or noise: a flow has none of one of them at its ends


class Stage(NamedTuple):
    """Timesteps from `first` to before `last`, and their mean score."""

    first: int
    last: int
    score: float


class Stages(NamedTuple):
    """The stages of a trajectory in the order of timesteps."""

    stages: tuple[Stage, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of all timesteps that lies in each stage."""
        return tuple((stage.last - stage.first) / self.stages[-1].last for stage in self.stages)

    def number(self, t: float) -> int:
        """The stage of a timestep, which may lie between two or beyond the last."""
        return bisect.bisect_right([stage.first for stage in self.stages[1:]], t)


def scores(schedule: Schedule, snr_weight: float) -> Tensor:
    """The score of each timestep, in [0, 1]: -> (T,) in float64."""
    signal, noise = (level.double().clamp_min(LEAST) for level in schedule.levels())
    speed = torch.gradient(signal / torch.hypot(signal, noise))[0].abs()
    log_snr = 2 * (signal / noise).log()
    score = speed / speed.max() + snr_weight * log_snr / log_snr.abs().max()
    return (score - score.min()) / (score.max() - score.min())


def cut(score: Tensor, share: float) -> Stages:
    """Up to three stages: timesteps from the first to the last with a share of the largest score, and those around."""
    high = (score >= share * score.max()).nonzero().flatten()
    edges = sorted({0, int(high[0]), int(high[-1]) + 1, len(score)})
    pairs = itertools.pairwise(edges)
    return Stages(tuple(Stage(first, last, float(score[first:last].mean())) for first, last in pairs))


def stage_sparsities(stages: Stages, sparsity: float, most: float) -> tuple[float, ...]:
    """Sparsity of each stage, proportional to 1 - its mean score, so that its mean over timesteps is `sparsity`.

    A stage gets `most` at the most; what it cannot take, the others do.
    """
    wanted = [1 - stage.score for stage in stages.stages]
    return share_out(sparsity, wanted, stages.shares, most)


def share_out(total: float, wanted: Sequence[float], weights: Sequence[float], most: float) -> tuple[float, ...]:
    """Values x_k = min(most, c · wanted_k) with the sum of weights_k · x_k = total."""
    found, full = [0.0] * len(wanted), set[int]()
    while len(full) < len(wanted):
        left = total - sum(weights[k] * most for k in full)
        free = [k for k in range(len(wanted)) if k not in full]
        scale = left / sum(weights[k] * wanted[k] for k in free)
        found = [most if k in full else scale * wanted[k] for k in range(len(wanted))]
        over = {k for k in free if found[k] > most + 1e-12}
        if not over:
            break
        full |= over
    return tuple(min(most, value) for value in found)

"""A race between classes: each is dropped once it is significantly behind the leader, so easy images stop early."""

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real

import numpy as np

from bigain.checks import set_plain_ints, whole
from bigain.classify.state import POLICIES, ClassifierState
from bigain.classify.trials import TimestepSampler, Trial

RESERVE = 0.15  # share of the allowed error kept for what the critical value is not exact in
STEADY = 9  # degrees of freedom of everybody's spread that steady the survivors' own


@POLICIES.register("race")
@dataclass(frozen=True)
class Race:
    """One trial at a time; classes are dropped once they are significantly behind the leader.

    After every trial the weighted sums of paired differences to the leader are tested, with one critical value for the
    whole race (see `critical_value`). If the errors of a trial, divided by its spread, are independent normal numbers
    of equal variance around what all classes share, the class with the lowest mean errors is dropped, at any time,
    with probability at most 1 − confidence, even if all classes are equally good; if they are not, much more rarely.
    Evenly spaced timesteps come in an order shuffled for each image. After `max_trials`, by default all of the
    profile or 20, the class with the lowest weighted mean wins.
    """

    confidence: float = 0.95
    max_trials: int | None = None
    first: int = 3  # trials before the first look
    antithetic: bool = False  # each noise is used twice, the second time mirrored

    def __post_init__(self) -> None:
        set_plain_ints(self, ("max_trials", "first"))
        if not isinstance(self.confidence, Real) or not 0 < self.confidence < 1:
            raise ValueError(f"confidence must be a probability between 0 and 1, got {self.confidence!r}")
        check_trials(self.first, self.max_trials)
        object.__setattr__(self, "confidence", float(self.confidence))  # of numpy's too, so that its text is plain
        if type(self.antithetic) is not bool:
            raise ValueError(f"antithetic must be True or False, got {self.antithetic!r}")

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        waiting = self._trials(sampler)  # says if there are not so many, before the simulation
        loads = tuple(round(trial.weight * trial.spread, 6) for trial in waiting)
        limit = critical_value(self.confidence, len(state.alive), min(self.first, len(waiting)), loads)
        size = self.first
        while waiting and len(state.alive) > 1:
            yield waiting[:size]
            waiting = waiting[size:]
            size = 2 if self.antithetic else 1
            state.keep(state.alive[~(behind(state) >= limit)])

    def _trials(self, sampler: TimestepSampler) -> list[Trial]:
        most = self.max_trials or sampler.trials
        if not self.antithetic:
            return sampler.sequence(most)
        trials = sampler.sequence(-(-most // 2))
        return [sign for trial in trials for sign in (trial, trial._replace(sign=-1))][:most]


def check_trials(first: object, most: object) -> None:
    """The number of trials before the first look, and at most; None for all that there are."""
    last = whole(most) if most is not None else sys.maxsize
    if whole(first) is None or last is None or not 2 <= first <= last:  # type: ignore[operator]
        raise ValueError(f"first and max_trials must be ints with 2 <= first <= max_trials, got {first!r} and {most!r}")


def behind(state: ClassifierState) -> np.ndarray:
    """How far each survivor is behind the leader, in standard errors of the weighted paired difference: (alive,)."""
    errors, weights = state.errors[state.alive], state.weights
    broken = ~np.isfinite(errors).all(1)
    if broken.all():
        return np.zeros(len(errors))
    total = errors @ weights
    size = np.square(weights * spreads(state)).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (total - total.min()) / np.sqrt(2 * size * np.float64(noise_variance(state)))
    return np.where(broken, np.inf, np.nan_to_num(found, nan=0.0, posinf=np.inf))


def spreads(state: ClassifierState) -> np.ndarray:
    """The spread of each trial: (R,)."""
    return np.array([trial.spread for trial in state.trials])


def noise_variance(state: ClassifierState) -> float:
    """Variance of an error in units of its trial's spread, around its class's mean and its trial's shared part.

    It is pooled over classes. The variance of the survivors, which have all trials, is stabilised by that of all
    classes, which is usually larger: similar classes have similar errors.
    """
    errors = state.errors / spreads(state)
    tried = np.isfinite(errors).all(1)  # the survivors, apart from broken ones
    shared = errors[tried].mean(0)
    count, trials = int(tried.sum()), errors.shape[1]
    own, own_freedom = residual(errors[tried] - shared), (trials - 1) * (count - 1)
    rest = errors[~tried] - shared
    rest_freedom = np.isfinite(rest).sum() - np.isfinite(rest).any(1).sum()
    everybody = (own + residual(rest) / (1 + 1 / count)) / max(1, own_freedom + rest_freedom)
    return float((own + STEADY * everybody) / (own_freedom + STEADY))


def residual(rows: np.ndarray) -> float:
    """Sum of squares around the mean of each row, over finite values."""
    finite = np.isfinite(rows)
    kept = np.where(finite, rows, 0.0)
    mean = kept.sum(1, keepdims=True) / np.maximum(1, finite.sum(1, keepdims=True))
    return float((np.where(finite, kept - mean, 0.0) ** 2).sum())


@functools.cache
def critical_value(confidence: float, classes: int, first: int, loads: tuple[float, ...]) -> float:
    """The value that a class as good as all others stays below throughout a race with probability `confidence`.

    `loads` are weight times spread of the trials. Simulated with a fixed seed for independent normal errors and no
    class dropped; more rivals only put a class further behind, so this is the worst case.
    """
    if classes < 2:
        return np.inf
    rng = np.random.default_rng(0)
    runs = int(np.clip(2_000_000 // classes, 2_000, 20_000))
    total, plain = np.zeros((runs, classes)), np.zeros((runs, classes))  # sums with and without weights
    squares, shared = np.zeros(runs), np.zeros(runs)  # sums of e² and of K · (trial mean)²
    furthest = np.full(runs, -np.inf)
    size = 0.0
    for n, load in enumerate(loads, start=1):
        errors = rng.standard_normal((runs, classes), dtype=np.float32)
        total += load * errors
        plain += errors
        size += load**2
        squares += (errors**2).sum(1)
        shared += classes * errors.mean(1) ** 2
        if n >= max(2, first):
            mean = plain / n
            left = squares - n * (mean**2).sum(1) - shared + n * classes * mean.mean(1) ** 2
            variance = left / ((n - 1) * (classes - 1))
            furthest = np.maximum(furthest, (total[:, 0] - total.min(1)) / np.sqrt(2 * size * variance))
    return float(np.quantile(furthest, 1 - (1 - RESERVE) * (1 - confidence)))

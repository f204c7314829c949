"""A race between classes: each is dropped once it is significantly behind the leader, so easy images stop early."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real

import numpy as np

from bigain.checks import set_plain_ints
from bigain.classify.state import POLICIES, ClassifierState
from bigain.classify.trials import TimestepSampler, Trial

RESERVE = 0.15  # share of the allowed error kept for what the critical value is not exact in
STEADY = 9  # degrees of freedom of everybody's spread that steady the survivors' own


@POLICIES.register("race")
@dataclass(frozen=True)
class Race:
    """One trial at a time; classes are dropped once they are significantly behind the leader.

    After every trial the paired differences to the leader are tested, with one critical value for the whole race (see
    `critical_value`). If a trial's errors are independent normal numbers of equal variance around what all classes
    share, the class with the lowest mean error is dropped, at any time, with probability at most 1 − confidence, even
    if all classes are equally good; if they are not, much more rarely. The timesteps are evenly spaced, in an order
    shuffled for each image. After `max_trials` the class with the lowest mean wins.
    """

    confidence: float = 0.95
    max_trials: int = 20
    first: int = 3  # trials before the first look
    antithetic: bool = False  # each noise is used twice, the second time mirrored

    def __post_init__(self) -> None:
        set_plain_ints(self, ("max_trials", "first"))
        if not isinstance(self.confidence, Real) or not 0 < self.confidence < 1:
            raise ValueError(f"confidence must be a probability between 0 and 1, got {self.confidence!r}")
        if not type(self.max_trials) is type(self.first) is int or not 2 <= self.first <= self.max_trials:
            raise ValueError(
                "first and max_trials must be ints with 2 <= first <= max_trials, "
                f"got {self.first!r} and {self.max_trials!r}"
            )
        object.__setattr__(self, "confidence", float(self.confidence))  # of numpy's too, so that its text is plain
        if type(self.antithetic) is not bool:
            raise ValueError(f"antithetic must be True or False, got {self.antithetic!r}")

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        waiting = self._trials(sampler)  # says if there are not so many, before the simulation
        limit = critical_value(self.confidence, len(state.alive), self.first, self.max_trials)
        size = self.first
        while waiting and len(state.alive) > 1:
            yield waiting[:size]
            waiting = waiting[size:]
            size = 2 if self.antithetic else 1
            state.keep(state.alive[~(behind(state) >= limit)])

    def _trials(self, sampler: TimestepSampler) -> list[Trial]:
        if not self.antithetic:
            return sampler.sequence(self.max_trials)
        trials = sampler.sequence(-(-self.max_trials // 2))
        return [sign for trial in trials for sign in (trial, trial._replace(sign=-1))][: self.max_trials]


def behind(state: ClassifierState) -> np.ndarray:
    """How far each survivor is behind the leader, in standard errors of the paired difference: (alive,)."""
    errors = state.errors[state.alive]
    broken = ~np.isfinite(errors).all(1)
    if broken.all():
        return np.zeros(len(errors))
    mean = errors.mean(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (mean - mean.min()) * np.sqrt(errors.shape[1] / np.float64(2 * noise_variance(state)))
    return np.where(broken, np.inf, np.nan_to_num(found, nan=0.0, posinf=np.inf))


def noise_variance(state: ClassifierState) -> float:
    """Variance of an error around its class's mean and its trial's shared part, pooled over classes.

    The variance of the survivors, which have all trials, is stabilised by that of all classes, which is usually larger:
    similar classes have similar errors.
    """
    whole = np.isfinite(state.errors).all(1)  # the survivors, apart from broken ones
    shared = state.errors[whole].mean(0)
    count, trials = int(whole.sum()), state.errors.shape[1]
    own, own_freedom = residual(state.errors[whole] - shared), (trials - 1) * (count - 1)
    rest = state.errors[~whole] - shared
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
def critical_value(confidence: float, classes: int, first: int, most: int) -> float:
    """The value that a class as good as all others stays below throughout a race with probability `confidence`.

    Simulated with a fixed seed for independent normal errors and no class dropped; more rivals only put a class
    further behind, so this is the worst case.
    """
    if classes < 2:
        return np.inf
    rng = np.random.default_rng(0)
    runs = int(np.clip(2_000_000 // classes, 2_000, 20_000))
    total = np.zeros((runs, classes))
    squares, shared = np.zeros(runs), np.zeros(runs)  # sums of e² and of K · (trial mean)²
    furthest = np.full(runs, -np.inf)
    for n in range(1, most + 1):
        errors = rng.standard_normal((runs, classes), dtype=np.float32)
        total += errors
        squares += (errors**2).sum(1)
        shared += classes * errors.mean(1) ** 2
        if n >= first:
            mean = total / n
            left = squares - n * (mean**2).sum(1) - shared + n * classes * mean.mean(1) ** 2
            variance = left / ((n - 1) * (classes - 1))
            furthest = np.maximum(furthest, (mean[:, 0] - mean.min(1)) * np.sqrt(n / (2 * variance)))
    return float(np.quantile(furthest, 1 - (1 - RESERVE) * (1 - confidence)))

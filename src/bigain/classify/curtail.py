"""Stochastic curtailment: a class is dropped once it will hardly overtake the leader in the trials that are left."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist

import numpy as np

from bigain.checks import check_count, set_plain_ints
from bigain.classify.state import POLICIES, ClassifierState
from bigain.classify.trials import TimestepSampler, Trial


@POLICIES.register("curtail")
@dataclass(frozen=True)
class Curtail:
    """One trial at a time; a class is dropped once it will hardly overtake the leader in the trials that are left.

    The spreads of a fitted profile say how far the weighted sum of a paired difference can still move. So it decides
    after the first trial already, where `race` must still learn how far errors scatter, and ever more readily towards
    the end. If the remaining differences have no drift and the profile's spreads, a class that is dropped would have
    won with probability at most 1 − confidence; if it is worse than the leader, with less. After `max_trials`, by
    default all of the profile, the class with the lowest weighted mean wins.
    """

    confidence: float = 0.85
    max_trials: int | None = None

    def __post_init__(self) -> None:
        set_plain_ints(self, ("max_trials",))
        if not isinstance(self.confidence, Real) or not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence must be a probability from 0.5 to below 1, got {self.confidence!r}")
        object.__setattr__(self, "confidence", float(self.confidence))
        if self.max_trials is not None:
            check_count("max_trials", self.max_trials)

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        if not sampler.fitted:
            raise ValueError(
                'curtail needs fitted timesteps: timesteps="fitted" where the model has them, a TimestepProfile, or '
                "classifier.fit(images); race needs none"
            )
        trials = sampler.sequence(self.max_trials or sampler.trials)
        limits = NormalDist().inv_cdf(self.confidence) * to_come(trials)
        for trial, limit in zip(trials, limits, strict=True):
            if len(state.alive) == 1:
                return
            yield [trial]
            total = state.errors[state.alive] @ state.weights
            if np.isfinite(total).any():
                state.keep(state.alive[total <= total.min() + limit])


def to_come(trials: list[Trial]) -> np.ndarray:
    """The standard deviation of what the trials after each can still add to a paired difference: (R,)."""
    squares = np.square([trial.weight * trial.spread for trial in trials])
    return np.sqrt(np.maximum(squares.sum() - squares.cumsum(), 0))

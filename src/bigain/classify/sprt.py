"""A sequential probability ratio test among many classes: each is dropped once the leader is far more probable."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real

import numpy as np

from bigain.checks import set_plain_ints
from bigain.classify.race import check_trials
from bigain.classify.state import POLICIES, ClassifierState
from bigain.classify.trials import TimestepSampler, Trial


@POLICIES.register("sprt")
@dataclass(frozen=True)
class SPRT:
    """One trial at a time; a class is dropped once the leader is `odds` times as probable.

    It needs a profile with a fitted scale, which turns weighted errors into log-probabilities; so it decides after the
    first trial already, where `race` must still learn how far errors scatter. If the probabilities are right, the true
    class is dropped with probability at most (K − 1) / odds, in practice far more rarely. After `max_trials`, by
    default all of the profile, the most probable class wins.
    """

    odds: float = 20.0
    max_trials: int | None = None
    first: int = 1  # trials before the first look

    def __post_init__(self) -> None:
        set_plain_ints(self, ("max_trials", "first"))
        if isinstance(self.odds, bool) or not isinstance(self.odds, Real) or not 1 < self.odds < math.inf:
            raise ValueError(f"odds must be a number above 1, got {self.odds!r}")
        object.__setattr__(self, "odds", float(self.odds))
        check_trials(self.first, self.max_trials, fewest=1)

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        if sampler.scale is None:
            raise ValueError(
                'sprt needs timesteps with fitted weights: timesteps="fitted" where the model has them, a '
                "TimestepProfile, or classifier.fit(images, labels); race needs none"
            )
        waiting = sampler.sequence(self.max_trials or sampler.trials)
        size = self.first
        while waiting and len(state.alive) > 1:
            yield waiting[:size]
            waiting, size = waiting[size:], 1
            evidence = sampler.scale * (state.errors[state.alive] @ state.weights)
            if np.isfinite(evidence).any():
                state.keep(state.alive[evidence < evidence.min() + math.log(self.odds)])

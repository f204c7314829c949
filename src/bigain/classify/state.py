"""The state of an image while it is classified, and the base class of policies."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bigain.classify.trials import TimestepSampler, Trial
from bigain.registry import Registry

POLICIES: Registry[type] = Registry("policy")


@dataclass
class ClassifierState:
    """One image while it is classified: errors (K, R), NaN where a class was not tried, and the surviving classes."""

    errors: np.ndarray
    trials: list[Trial]
    alive: np.ndarray
    rounds: np.ndarray  # (K,) how many rounds each class survived

    @classmethod
    def empty(cls, classes: int) -> "ClassifierState":
        return cls(np.zeros((classes, 0)), [], np.arange(classes), np.zeros(classes, dtype=int))

    def add(self, trials: list[Trial], errors: np.ndarray) -> None:
        """Add errors of the survivors on new trials; NaN counts as infinite: (alive, new)."""
        new = np.full((len(self.rounds), len(trials)), np.nan)
        new[self.alive] = np.where(np.isfinite(errors), errors, np.inf)
        self.errors = np.concatenate([self.errors, new], axis=1)
        self.trials += trials

    def keep(self, classes: np.ndarray) -> None:
        """Keep only these classes."""
        self.alive = np.sort(classes)
        self.rounds[self.alive] += 1

    @property
    def weights(self) -> np.ndarray:
        """How much the error of each trial counts: (R,)."""
        return np.array([trial.weight for trial in self.trials])

    def means(self) -> np.ndarray:
        """Weighted mean error of each surviving class over all trials: (alive,)."""
        return self.errors[self.alive] @ (self.weights / self.weights.sum())

    def best(self, count: int) -> np.ndarray:
        """The surviving classes with the lowest means, best first: (count,)."""
        return self.alive[np.argsort(self.means(), kind="stable")[:count]]


class Policy(Protocol):
    """A frozen dataclass; its fields are its spec string."""

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        """Yield the trials to run on the survivors; when resumed, their errors are on the state."""

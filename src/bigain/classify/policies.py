"""Policies: which classes to try on which trials, and when to stop."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bigain.classify.trials import Trial, staged_steps
from bigain.registry import Registry

POLICIES: Registry[type] = Registry("policy")


@dataclass
class Board:
    """What is known of one image: errors (K, R) with NaN where a class was not tried, and the surviving classes."""

    errors: np.ndarray
    trials: list[Trial]
    alive: np.ndarray
    rounds: np.ndarray  # (K,) how many rounds each class survived

    @classmethod
    def empty(cls, classes: int) -> "Board":
        return cls(np.zeros((classes, 0)), [], np.arange(classes), np.zeros(classes, dtype=int))

    def add(self, trials: list[Trial], errors: np.ndarray) -> None:
        """Errors of the surviving classes on new trials: (alive, new)."""
        new = np.full((len(self.rounds), len(trials)), np.nan)
        new[self.alive] = errors
        self.errors = np.concatenate([self.errors, new], axis=1)
        self.trials += trials

    def keep(self, classes: np.ndarray) -> None:
        self.alive = np.sort(classes)
        self.rounds[self.alive] += 1

    def means(self) -> np.ndarray:
        """Mean error of each surviving class over all trials; NaN and infinite errors never win: (alive,)."""
        means = self.errors[self.alive].mean(axis=1)
        return np.where(np.isfinite(means), means, np.inf)

    def best(self, count: int) -> np.ndarray:
        """The surviving classes with the lowest means: (count,)."""
        return self.alive[np.argsort(self.means(), kind="stable")[:count]]


@POLICIES.register("stages")
@dataclass(frozen=True)
class Stages:
    """The paper's staged pruning: by the end of stage i each survivor has trials[i] trials; keep[i] survive."""

    trials: tuple[int, ...] = (5, 20)
    keep: tuple[int, ...] = (5, 1)

    def __post_init__(self) -> None:
        if len(self.trials) != len(self.keep) or not self.trials:
            raise ValueError(f"stages need as many keep counts as trials; got {self.trials} and {self.keep}")
        if list(self.trials) != sorted(set(self.trials)) or min(self.trials) < 1:
            raise ValueError(f"trials are cumulative and must rise; got {self.trials}")
        if list(self.keep) != sorted(self.keep, reverse=True) or min(self.keep) < 1:
            raise ValueError(f"keep counts must not rise and end at 1 or more; got {self.keep}")

    def rounds(self, board: Board, timesteps: int) -> Iterator[list[Trial]]:
        """Yield the trials to run on the survivors; when resumed, their errors are on the board."""
        for steps, keep in zip(staged_steps(timesteps, self.trials), self.keep, strict=True):
            yield [Trial(t, 0) for t in steps]
            board.keep(board.best(keep))


@POLICIES.register("exhaustive")
@dataclass(frozen=True)
class Exhaustive:
    """Every class on every trial."""

    trials: int = 20

    def rounds(self, board: Board, timesteps: int) -> Iterator[list[Trial]]:
        yield [Trial(t, 0) for t in staged_steps(timesteps, [self.trials])[0]]
        board.keep(board.best(1))

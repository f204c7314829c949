"""Policies: which classes to try on which trials, and when to stop."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bigain.classify.trials import Trial, even_steps, shuffled, staged_steps
from bigain.registry import Registry, miss, parse_call

POLICIES: Registry[type] = Registry("policy")


@dataclass
class Board:
    """What is known of one image: errors (K, R) with NaN where a class was not tried, and the surviving classes."""

    errors: np.ndarray
    trials: list[Trial]
    alive: np.ndarray
    rounds: np.ndarray  # (K,) how many rounds each class survived
    image: int = 0  # the image's fingerprint, for policies that shuffle

    @classmethod
    def empty(cls, classes: int, image: int = 0) -> "Board":
        return cls(np.zeros((classes, 0)), [], np.arange(classes), np.zeros(classes, dtype=int), image)

    def add(self, trials: list[Trial], errors: np.ndarray) -> None:
        """Errors of the surviving classes on new trials: (alive, new)."""
        new = np.full((len(self.rounds), len(trials)), np.nan)
        new[self.alive] = errors
        self.errors = np.concatenate([self.errors, new], axis=1)
        self.trials += trials

    def keep(self, classes: np.ndarray) -> None:
        """Only these survive the round."""
        self.alive = np.sort(classes)
        self.rounds[self.alive] += 1

    def means(self) -> np.ndarray:
        """Mean error of each surviving class over all trials; what is not finite never wins: (alive,)."""
        means = self.errors[self.alive].mean(axis=1)
        return np.where(np.isfinite(means), means, np.inf)

    def best(self, count: int) -> np.ndarray:
        """The surviving classes with the lowest means, best first: (count,)."""
        return self.alive[np.argsort(self.means(), kind="stable")[:count]]


class Policy(Protocol):
    """A frozen dataclass; its fields are its spec string."""

    def rounds(self, board: Board, timesteps: int) -> Iterator[list[Trial]]:
        """Yield the trials to run on the survivors; when resumed, their errors are on the board."""


def parse_policy(text: str) -> Any:
    """`stages(trials=(5, 20), keep=(5, 1))` -> Stages; the paper's settings by data set: `imagenet-1k`."""
    if text in PAPER:
        return PAPER[text]
    name, args, kwargs = parse_call(text, "policy")
    if name not in POLICIES:
        raise ValueError(miss("policy", name, [*POLICIES, *PAPER]))
    try:
        return POLICIES[name](*args, **kwargs)
    except TypeError as error:
        fields = ", ".join(field.name for field in dataclasses.fields(POLICIES[name]))
        raise ValueError(f"{text!r}: {name} takes {fields} ({error})") from None


@POLICIES.register("stages")
@dataclass(frozen=True)
class Stages:
    """The paper's staged pruning: by the end of stage i each survivor has trials[i] trials, and keep[i] survive."""

    trials: tuple[int, ...] = (5, 20)
    keep: tuple[int, ...] = (5, 1)
    steps: tuple[int, ...] | None = None  # time steps in the order of use, instead of the evenly spaced ones

    def __post_init__(self) -> None:
        if len(self.trials) != len(self.keep) or not self.trials:
            raise ValueError(f"stages need as many keep counts as trials; got {self.trials} and {self.keep}")
        if list(self.trials) != sorted(set(self.trials)) or min(self.trials) < 1:
            raise ValueError(f"trials are cumulative and must rise; got {self.trials}")
        if list(self.keep) != sorted(self.keep, reverse=True) or min(self.keep) < 1:
            raise ValueError(f"keep counts must not rise, and are 1 or more; got {self.keep}")
        check_steps(self.steps, self.trials[-1])

    def rounds(self, board: Board, timesteps: int) -> Iterator[list[Trial]]:
        if self.steps is None:
            stages = [[Trial(t, 0) for t in steps] for steps in staged_steps(timesteps, self.trials)]
        else:
            ends = [0, *self.trials]
            trials = numbered(self.steps[: self.trials[-1]])
            stages = [trials[a:b] for a, b in itertools.pairwise(ends)]
        for trials, keep in zip(stages, self.keep, strict=True):
            yield trials
            board.keep(board.best(keep))


@POLICIES.register("exhaustive")
@dataclass(frozen=True)
class Exhaustive:
    """Every class on every trial."""

    trials: int = 20
    steps: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if type(self.trials) is not int or self.trials < 1:
            raise ValueError(f"trials is an int from 1; got {self.trials!r}")
        check_steps(self.steps, self.trials)

    def rounds(self, board: Board, timesteps: int) -> Iterator[list[Trial]]:
        yield numbered(self.steps[: self.trials] if self.steps else even_steps(timesteps, self.trials))
        board.keep(board.best(1))


@POLICIES.register("race")
@dataclass(frozen=True)
class Race:
    """Classes are tried one trial at a time and dropped once they are behind the leader beyond doubt.

    Doubt is a time-uniform t-test on the paired differences to the leader (see `evidence`), at level
    (1 − confidence) / (K − 1) for each class. If the differences were independent normal numbers, the class with the
    lowest mean error would be dropped, at any time, with probability at most 1 − confidence. The time steps are
    evenly spaced, in an order shuffled for each image; `max_trials` ends the race, the lowest mean then wins.
    """

    confidence: float = 0.95
    max_trials: int = 20
    first: int = 3  # trials before the first look
    steps: tuple[int, ...] | None = None
    antithetic: bool = False  # each noise is used twice, the second time mirrored

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence is a probability between 0 and 1; got {self.confidence!r}")
        if type(self.max_trials) is not int or not 2 <= self.first <= self.max_trials:
            raise ValueError(f"a race needs 2 <= first <= max_trials; got {self.first} and {self.max_trials}")
        check_steps(self.steps, self.max_trials)

    def rounds(self, board: Board, timesteps: int) -> Iterator[list[Trial]]:
        threshold = math.log(max(1, len(board.alive) - 1) / (1 - self.confidence))
        waiting = self._trials(board, timesteps)
        size = self.first
        while waiting and len(board.alive) > 1:
            yield waiting[:size]
            waiting = waiting[size:]
            size = 2 if self.antithetic else 1
            leader = board.best(1)[0]
            behind = evidence(board.errors[board.alive] - board.errors[leader])
            board.keep(board.alive[(board.alive == leader) | ~(behind >= threshold)])

    def _trials(self, board: Board, timesteps: int) -> list[Trial]:
        count = -(-self.max_trials // 2) if self.antithetic else self.max_trials
        steps = self.steps[:count] if self.steps else shuffled(even_steps(timesteps, count), board.image)
        trials = numbered(steps)
        if self.antithetic:
            trials = [sign for trial in trials for sign in (trial, trial._replace(sign=-1))]
        return trials[: self.max_trials]


def evidence(differences: np.ndarray, spread: float = 100.0) -> np.ndarray:
    """Log of the evidence that the mean of each row is above zero: (K, n) -> (K,); minus infinity where it is not.

    The Bayes factor of a normal effect size with variance `spread` against none, with the scale integrated out. For
    independent normal numbers of mean zero it is a martingale, so it ever exceeds 1/a with probability at most a,
    whenever one looks (Ville).
    """
    n = differences.shape[1]
    mean, deviation = differences.mean(1), differences.std(1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = n * (mean / deviation) ** 2 / (n - 1)
    squared = np.where(deviation == 0, np.where(mean > 0, np.inf, 0.0), squared)
    shrink = 1 + n * spread
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.where(np.isinf(squared), shrink, (1 + squared) / (1 + squared / shrink))
    found = 0.5 * n * np.log(ratio) - 0.5 * math.log(shrink)
    found = np.where(mean > 0, found, -np.inf)
    return np.where(np.isfinite(differences).all(1), found, np.inf)


def numbered(steps: Sequence[int]) -> list[Trial]:
    """Trials at these time steps; a step that comes again gets another noise."""
    seen: dict[int, int] = {}
    trials = []
    for t in steps:
        trials.append(Trial(int(t), seen.get(t, 0)))
        seen[t] = seen.get(t, 0) + 1
    return trials


def check_steps(steps: tuple[int, ...] | None, trials: int) -> None:
    if steps is not None and len(steps) < trials:
        raise ValueError(f"{trials} trials need as many time steps; got {len(steps)}")


# the settings of the paper's experiments
PAPER: dict[str, Stages] = {
    "imagenet-100": Stages((5, 20), (5, 1)),
    "coco": Stages((5, 20), (5, 1)),
    "pets": Stages((5, 20), (5, 1)),
    "imagenet-1k": Stages((5, 20, 100), (50, 10, 1)),
}

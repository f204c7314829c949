"""Policies: which classes to try on which trials, and when to stop."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import bigain.classify.curtail
import bigain.classify.race  # noqa: F401 - both register themselves
from bigain.checks import plain_ints, set_plain_ints, whole
from bigain.classify.state import POLICIES, ClassifierState, Policy
from bigain.classify.trials import TimestepSampler, Trial
from bigain.registry import call, miss, parse_call

FEW_CLASSES = 100  # up to which the paper has two stages
PRESET_NAMES = ("paper", "balanced", "fast")  # see presets.py


def parse_policy(text: str) -> Any:
    """`stages(trials=(5, 20), keep=(5, 1))` -> Stages; the paper's settings by dataset: `imagenet-1k`."""
    if text in PAPER:
        return PAPER[text]
    name, args, kwargs = parse_call(text, "policy")
    if name not in POLICIES:
        raise ValueError(miss("policy", name, [*PRESET_NAMES, *POLICIES, *PAPER]))
    return call(POLICIES[name], name, args, kwargs)


def as_policy(policy: Any) -> Policy:
    """A policy from a string, or as it is; None means the paper's staged pruning."""
    if policy is None:
        return Stages()
    if isinstance(policy, str):
        return parse_policy(policy)
    if isinstance(policy, type):
        raise TypeError(f"policy must be an instance, such as {policy.__name__}(), got the class {policy.__name__}")
    if not callable(getattr(policy, "rounds", None)):
        known = ", ".join([*PRESET_NAMES, *POLICIES, *PAPER])
        raise TypeError(
            f'policy must be a string such as "race(confidence=0.95)" or an instance, got {policy!r}. '
            f"Available: {known}"
        )
    return policy


@POLICIES.register("stages")
@dataclass(frozen=True)
class Stages:
    """Staged pruning, as in the paper: stage i brings each class to trials[i] trials and keeps the best keep[i]."""

    trials: tuple[int, ...] = (5, 20)
    keep: tuple[int, ...] = (5, 1)

    def __post_init__(self) -> None:
        for name, counts in (("trials", self.trials), ("keep", self.keep)):
            several = counts.tolist() if isinstance(counts, np.ndarray) else counts
            if not isinstance(several, list | tuple) or any(whole(count) is None for count in several):
                raise ValueError(f"{name} must be a list of ints, one per stage, got {counts!r}")
            object.__setattr__(self, name, plain_ints(tuple(several)))
        if len(self.trials) != len(self.keep) or not self.trials:
            raise ValueError(f"trials and keep must have the same length, got {self.trials} and {self.keep}")
        if list(self.trials) != sorted(set(self.trials)) or min(self.trials) < 1:
            raise ValueError(f"trials must be cumulative and increasing, got {self.trials}")
        if list(self.keep) != sorted(self.keep, reverse=True) or min(self.keep) < 1:
            raise ValueError(f"keep must be at least 1 and not increasing, got {self.keep}")

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        for trials, keep in zip(sampler.stages(self.trials), self.keep, strict=True):
            yield trials
            state.keep(state.best(keep))


@POLICIES.register("exhaustive")
@dataclass(frozen=True)
class Exhaustive:
    """Every class on every trial, without pruning."""

    trials: int = 20

    def __post_init__(self) -> None:
        set_plain_ints(self, ("trials",))
        if type(self.trials) is not int or self.trials < 1:
            raise ValueError(f"trials must be an int of at least 1, got {self.trials!r}")

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        yield sampler.stages((self.trials,))[0]
        state.keep(state.best(1))


@POLICIES.register("cascade")
@dataclass(frozen=True)
class Cascade:
    """Another policy, whose rounds of at most `survivors` classes are computed by the classifier's final denoiser.

    So the first rounds, with many classes, can run on a cheaper model than the last.
    """

    policy: str = "stages"
    survivors: int = 3

    def __post_init__(self) -> None:
        set_plain_ints(self, ("survivors",))
        if type(self.survivors) is not int or self.survivors < 2:
            raise ValueError(f"survivors must be an int of at least 2, got {self.survivors!r}")
        if isinstance(parse_policy(self.policy), Cascade):
            raise ValueError(f"policy must not be a cascade itself, got {self.policy!r}")

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        for trials in parse_policy(self.policy).rounds(state, sampler):
            final = len(state.alive) <= self.survivors
            yield [trial._replace(final=final) for trial in trials]


# the settings of the paper's experiments
PAPER: dict[str, Stages] = {
    "imagenet-100": Stages((5, 20), (5, 1)),
    "coco": Stages((5, 20), (5, 1)),
    "pets": Stages((5, 20), (5, 1)),
    "imagenet-1k": Stages((5, 20, 100), (50, 10, 1)),
}


def paper_stages(classes: int) -> Stages:
    """The stages of the paper's experiment with about as many classes."""
    return PAPER["imagenet-100"] if classes <= FEW_CLASSES else PAPER["imagenet-1k"]

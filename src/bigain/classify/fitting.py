"""`classifier.fit`: errors of some images at many timesteps, and the profile that they give."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bigain.checks import check_count
from bigain.classify.decision import Decision
from bigain.classify.incoming import each_image
from bigain.classify.policies import Exhaustive
from bigain.classify.state import ClassifierState, Policy
from bigain.classify.trials import TimestepSampler, Trial, even_timesteps
from bigain.classify.weights import fit_profile, rival_spreads
from bigain.profile import TimestepProfile

if TYPE_CHECKING:
    from bigain.classify.classifier import DiffusionClassifier

SHORTLIST = 32  # classes of an image that are tried at all candidates, where there are many
MANY = 2 * SHORTLIST
APART = 5  # all classes are tried at every fifth candidate


def fit_timesteps(
    classifier: "DiffusionClassifier",
    images: Sequence[Any],
    truth: np.ndarray | None,
    trials: int,
    candidates: int,
    progress: Callable[[Decision], None] | None,
) -> TimestepProfile:
    """The profile of a classifier for some images with true classes (n,), or without."""
    check_count("candidates", candidates, classifier.num_train_timesteps)
    check_count("trials", trials, candidates)
    steps = even_timesteps(classifier.num_train_timesteps, candidates)
    draws = 1 if truth is not None else 2
    if len(classifier.classes) > MANY:
        errors, truth = nearest_errors(classifier, images, truth, Candidates(steps, draws), progress)
    else:
        with trying(classifier, steps * draws, Exhaustive(candidates * draws)):
            errors = np.stack([decision.errors for decision in classifier(images, progress)])
    labels = own_labels(errors[..., candidates:]) if truth is None else truth
    found = fit_profile(errors[..., :candidates], labels, trials)
    spreads = rival_spreads(errors[..., :candidates])
    network = classifier.denoiser.network
    return TimestepProfile(
        timesteps=tuple(steps[r] for r in found.columns),
        weights=tuple(found.weights.tolist()),
        spreads=tuple(float(spreads[r]) for r in found.columns),
        scale=float(found.weights.mean()),
        model=f"{type(network).__name__}, {sum(p.numel() for p in network.parameters()):,} parameters",
        classes=classifier.classes,
        images=len(errors),
        labelled=truth is not None,
        note=found.note,
    )


@contextmanager
def trying(classifier: "DiffusionClassifier", steps: Sequence[int], policy: Policy) -> Iterator[None]:
    """Inside the `with` block, the classifier runs a policy on these timesteps."""
    before = classifier.policy, classifier.timesteps
    classifier.policy = policy
    classifier.timesteps = TimestepProfile(tuple(steps), (1.0,) * len(steps))
    try:
        yield
    finally:
        classifier.policy, classifier.timesteps = before


class Candidates(NamedTuple):
    """Timesteps to choose from, and how many noises each is tried with."""

    steps: list[int]
    draws: int

    @property
    def order(self) -> list[int]:
        """Every fifth from the third on comes first, so that few of them already span all timesteps."""
        once = len(self.steps)
        return sorted(range(once), key=lambda i: i % APART != APART // 2) + list(range(once, once * self.draws))

    @property
    def first(self) -> int:
        """How many of them all classes are tried on."""
        return max(1, len(range(APART // 2, len(self.steps), APART)))


@dataclass(frozen=True)
class Nearest:
    """All classes on the first trials, then the nearest ones and the true one on all."""

    first: int
    trials: int
    truth: int | None

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        (trials,) = sampler.stages((self.trials,))
        yield trials[: self.first]
        near = state.best(SHORTLIST)
        state.keep(near if self.truth is None or self.truth in near else np.append(near[:-1], self.truth))
        yield trials[self.first :]
        state.keep(state.best(1))


def nearest_errors(
    classifier: "DiffusionClassifier",
    images: Sequence[Any],
    truth: np.ndarray | None,
    candidates: Candidates,
    progress: Callable[[Decision], None] | None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Errors of the nearest classes of each image, and which of them is true: -> (n, SHORTLIST, R), (n,)."""
    steps, order = candidates.steps * candidates.draws, candidates.order
    found, true = [], []
    for number, image in enumerate(each_image(images)):
        label = None if truth is None else int(truth[number])
        with trying(classifier, [steps[i] for i in order], Nearest(candidates.first, len(order), label)):
            (decision,) = classifier([image], progress)
        near = np.flatnonzero(~np.isnan(decision.errors).any(1))
        found.append(decision.errors[near][:, np.argsort(order)])
        true.append(int(np.searchsorted(near, label or 0)))
    return np.stack(found), None if truth is None else np.array(true)


def own_labels(errors: np.ndarray) -> np.ndarray:
    """What the classifier decides by itself: (n, K, R) -> (n,).

    Errors count in units of the square root of their spread, between equal weights and equal influence.
    """
    spreads = np.maximum((errors - errors.mean(1, keepdims=True)).std((0, 1)), 1e-300)
    return (errors / np.sqrt(spreads)).mean(2).argmin(1)

"""`classifier.fit`: errors of some images at many timesteps, and the profile that they give."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from bigain.checks import check_count
from bigain.classify.decision import Decision
from bigain.classify.policies import Exhaustive
from bigain.classify.trials import even_timesteps
from bigain.classify.weights import fit_profile, rival_spreads
from bigain.profile import TimestepProfile

if TYPE_CHECKING:
    from bigain.classify.classifier import DiffusionClassifier


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
    with exhaustive(classifier, steps * draws):
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
def exhaustive(classifier: "DiffusionClassifier", steps: Sequence[int]) -> Iterator[None]:
    """Inside the `with` block, the classifier tries every class at these timesteps."""
    before = classifier.policy, classifier.timesteps
    classifier.policy = Exhaustive(len(steps))
    classifier.timesteps = TimestepProfile(tuple(steps), (1.0,) * len(steps))
    try:
        yield
    finally:
        classifier.policy, classifier.timesteps = before


def own_labels(errors: np.ndarray) -> np.ndarray:
    """What the classifier decides by itself: (n, K, R) -> (n,).

    Errors count in units of the square root of their spread, between equal weights and equal influence.
    """
    spreads = np.maximum((errors - errors.mean(1, keepdims=True)).std((0, 1)), 1e-300)
    return (errors / np.sqrt(spreads)).mean(2).argmin(1)

"""Which time steps tell classes apart, measured on labelled images."""

from typing import NamedTuple

import numpy as np

RIVALS = 3  # the nearest wrong classes of each image; the others are no contest


class Profile(NamedTuple):
    """Time steps in the order of use, and for each the margin-to-noise ratio that it has alone."""

    steps: tuple[int, ...]
    ratios: tuple[float, ...]


def measure(errors: np.ndarray, truth: np.ndarray, steps: tuple[int, ...]) -> Profile:
    """(n, K, R) errors of labelled images, (n,) true classes, R time steps -> Profile.

    The margin is the paired difference of a rival's error to the true class's; its mean over images and rivals,
    divided by its standard deviation, is what accuracy follows. Steps are chosen one after the other so that this
    ratio of the *sum* over all chosen so far is largest: steps that say the same do not follow each other.
    """
    margins = rival_margins(errors, truth)
    alone = [ratio(margins[..., r]) for r in range(margins.shape[-1])]
    chosen: list[int] = []
    total = np.zeros(margins.shape[:-1])
    while len(chosen) < len(steps):
        rest = [r for r in range(len(steps)) if r not in chosen]
        best = max(rest, key=lambda r: ratio(total + margins[..., r]))
        chosen.append(best)
        total = total + margins[..., best]
    return Profile(tuple(steps[r] for r in chosen), tuple(alone[r] for r in chosen))


def rival_margins(errors: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Differences of the nearest wrong classes to the true one: (n, K, R), (n,) -> (n, rivals, R)."""
    n, classes, _ = errors.shape
    margins = errors - errors[np.arange(n), truth][:, None]
    mean = margins.mean(2)
    mean[np.arange(n), truth] = np.inf
    nearest = mean.argsort(1)[:, : min(RIVALS, classes - 1)]
    return np.take_along_axis(margins, nearest[..., None], 1)


def ratio(margins: np.ndarray) -> float:
    spread = margins.std()
    return float(margins.mean() / spread) if spread > 0 else float(np.sign(margins.mean())) * np.inf

"""Which timesteps separate classes best, measured on labelled images."""

from typing import NamedTuple

import numpy as np

from bigain.classify.calibration import fit_scale

SAME = 1e-3  # cross-entropies closer than this say nothing about which step is better
RIVALS = 3  # the nearest wrong classes of each image; others hardly matter


class Profile(NamedTuple):
    """Timesteps in the order of use, with the margin-to-noise ratio of each alone and the loss up to each.

    The loss is the cross-entropy of the true class with all timesteps so far, at the best temperature.
    """

    timesteps: tuple[int, ...]
    ratios: tuple[float, ...]
    losses: tuple[float, ...]


def measure(errors: np.ndarray, truth: np.ndarray, timesteps: tuple[int, ...]) -> Profile:
    """(n, K, R) errors of labelled images, (n,) true classes, R timesteps -> Profile.

    Timesteps are chosen greedily, so that the cross-entropy of all chosen so far is lowest: one that errs on the same
    images as those before it comes late, however good it is alone.
    """
    alone = [ratio(margins) for margins in np.moveaxis(rival_margins(errors, truth), 2, 0)]
    chosen: list[int] = []
    losses: list[float] = []
    total = np.zeros(errors.shape[:2])
    while len(chosen) < len(timesteps):
        rest = [r for r in range(len(timesteps)) if r not in chosen]
        found = [cross_entropy(total + errors[..., r], truth) for r in rest]
        best = int(np.argmin(found))
        chosen.append(rest[best])
        losses.append(found[best])
        total = total + errors[..., rest[best]]
    return Profile(tuple(timesteps[r] for r in chosen), tuple(alone[r] for r in chosen), tuple(losses))


def order_is_chance(errors: np.ndarray, truth: np.ndarray) -> bool:
    """Whether no timestep is better than another, as when each classifies all images correctly: (n, K, R), (n,)."""
    alone = [cross_entropy(errors[..., r], truth) for r in range(errors.shape[2])]
    return max(alone) - min(alone) < SAME


def cross_entropy(errors: np.ndarray, truth: np.ndarray) -> float:
    """Cross-entropy of (n, K) errors at their best temperature."""
    gaps = errors - errors.min(1, keepdims=True)
    return fit_scale(gaps, truth, 1 / (float(gaps.mean()) or 1.0)).loss


def rival_margins(errors: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Differences of the nearest wrong classes to the true one: (n, K, R), (n,) -> (n, rivals, R)."""
    n, classes, _ = errors.shape
    margins = errors - errors[np.arange(n), truth][:, None]
    mean = margins.mean(2)
    mean[np.arange(n), truth] = np.inf
    nearest = mean.argsort(1)[:, : min(RIVALS, classes - 1)]
    return np.take_along_axis(margins, nearest[..., None], 1)


def ratio(margins: np.ndarray) -> float:
    """Mean over spread of the rivals' margins: what decides whether a trial errs (the paper's eq. 14)."""
    spread = margins.std()
    return float(margins.mean() / spread) if spread > 0 else float(np.sign(margins.mean())) * np.inf

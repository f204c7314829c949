"""The outcome of a classification: label, ranking, margin, probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bigain.classify.state import ClassifierState


@dataclass(frozen=True)
class Decision:
    """The decision for one image: its class, the ranking, and the evidence."""

    label: str | int  # the element of `classes` that won
    index: int
    ranking: tuple[int, ...]  # all classes, best first: by rounds survived, then by weighted mean over common trials
    errors: np.ndarray = field(repr=False)  # (K, R), NaN where a class was not tried
    timesteps: tuple[int, ...] = field(repr=False)  # (R,) timesteps of the trials
    weights: np.ndarray = field(repr=False)  # (R,) of the trials
    margin: float  # weighted mean of the paired differences of the runner-up to the winner
    margin_error: float  # its standard error
    probabilities: np.ndarray = field(repr=False)  # (K,), see `probabilities`
    pruned: np.ndarray = field(repr=False)  # (K,) whether a class was dropped before the last round
    evaluations: int


class Standing(NamedTuple):
    """What is known of an image after one of its trials."""

    decision: Decision  # as it would be without further trials
    gaps: np.ndarray  # (K,) paired difference of each class to the leader, infinite where there is none
    alive: np.ndarray  # (K,) whether a class is still in the race
    done: bool


def ranking(state: ClassifierState) -> np.ndarray:
    """Classes, best first: by how long they survived, then by weighted mean error over common trials."""
    tried, weights = ~np.isnan(state.errors), state.weights
    scores = np.full(len(state.rounds), np.inf)
    for rank in np.unique(state.rounds):
        peers = np.flatnonzero(state.rounds == rank)
        common = tried[peers].all(axis=0)
        if common.any():
            means = np.average(state.errors[np.ix_(peers, common)], axis=1, weights=weights[common])
            scores[peers] = np.where(np.isfinite(means), means, np.inf)
    return np.lexsort((scores, -state.rounds))


def paired_margin(errors: np.ndarray, weights: np.ndarray, winner: int, other: int) -> tuple[float, float]:
    """Weighted mean difference of another class to the winner over common trials, and its standard error."""
    differences = errors[other] - errors[winner]
    common = np.isfinite(differences)
    differences, share = differences[common], weights[common] / max(weights[common].sum(), 1e-300)
    mean = float(differences @ share) if len(differences) else np.nan
    if len(differences) < 2:
        return mean, np.nan
    spread = np.sqrt(np.square(share) @ np.square(differences - mean) * len(differences) / (len(differences) - 1))
    return mean, float(spread)


def distances(
    errors: np.ndarray, weights: np.ndarray, order: Sequence[int] | np.ndarray, *, summed: bool
) -> np.ndarray:
    """Paired difference of every class to the winner: (K, R), (R,), (K,) ranking -> (K,), infinite if there is none.

    It is the weighted mean over common trials, or with `summed` the weighted sum, which is evidence: a class that was
    dropped early keeps what it had. It never decreases along the ranking: a class that was dropped early may have
    been closer in its few trials than one that survived longer.
    """
    differences = errors - errors[order[0]]
    common = np.isfinite(differences)
    total = np.where(common, differences, 0.0) @ weights
    found = total if summed else total / np.maximum(common @ weights, 1e-300)
    found = np.where(common.any(1), found, np.inf)
    places = list(order)
    found[places] = np.maximum.accumulate(found[places])
    return found


def probabilities(gaps: np.ndarray, scale: float) -> np.ndarray:
    """exp(−scale · gap), normalised: (…, K) -> (…, K). A class with an infinite gap gets 0."""
    logits = np.where(np.isfinite(gaps), -scale * gaps, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)

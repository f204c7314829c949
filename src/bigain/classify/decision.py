"""The outcome of a classification: label, ranking, margin, probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bigain.classify.state import ClassifierState


@dataclass(frozen=True)
class Decision:
    """The decision for one image: its class, the ranking, and the evidence."""

    label: str | int  # the element of `classes` that won
    index: int
    ranking: tuple[int, ...]  # all classes, best first: by rounds survived, then by mean over common trials
    errors: np.ndarray = field(repr=False)  # (K, R), NaN where a class was not tried
    timesteps: tuple[int, ...] = field(repr=False)  # (R,) timesteps of the trials
    margin: float  # mean paired difference of the runner-up to the winner
    margin_error: float  # its standard error
    probabilities: np.ndarray = field(repr=False)  # (K,), see `probabilities`
    pruned: np.ndarray = field(repr=False)  # (K,) whether a class was dropped before the last round
    evaluations: int


def ranking(state: ClassifierState) -> np.ndarray:
    """Classes, best first: by how long they survived, then by mean error over common trials."""
    tried = ~np.isnan(state.errors)
    scores = np.full(len(state.rounds), np.inf)
    for rank in np.unique(state.rounds):
        peers = np.flatnonzero(state.rounds == rank)
        common = tried[peers].all(axis=0)
        if common.any():
            means = state.errors[np.ix_(peers, common)].mean(1)
            scores[peers] = np.where(np.isfinite(means), means, np.inf)
    return np.lexsort((scores, -state.rounds))


def paired_margin(errors: np.ndarray, winner: int, other: int) -> tuple[float, float]:
    """Mean difference of another class to the winner over common trials, and its standard error."""
    differences = errors[other] - errors[winner]
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return (float(differences.mean()) if len(differences) else np.nan), np.nan
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))


def distances(errors: np.ndarray, order: Sequence[int] | np.ndarray) -> np.ndarray:
    """Mean paired difference of every class to the winner: (K, R), (K,) ranking -> (K,), infinite if there is none.

    It never decreases along the ranking: a class that was dropped early had fewer trials, and may have been closer in
    those than one that survived longer.
    """
    winner = order[0]
    found = np.array([0.0 if k == winner else paired_margin(errors, winner, k)[0] for k in range(len(errors))])
    places = list(order)
    found[places] = np.maximum.accumulate(np.where(np.isnan(found), np.inf, found)[places])
    return found


def probabilities(gaps: np.ndarray, scale: float) -> np.ndarray:
    """exp(−scale · gap), normalised: (…, K) -> (…, K). A class with an infinite gap gets 0."""
    logits = np.where(np.isfinite(gaps), -scale * gaps, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)

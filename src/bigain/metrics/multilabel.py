"""Metrics for images with several labels: three numbers that are easily confused.

*Top-1 precision* asks whether the winner is one of the image's labels. *Label-ranking precision* is an average
precision over the classes of one image, then averaged over images: what the paper calls mAP. *Class precision* is an
average precision over the images of one class, and its mean over classes is the macro mAP of object detection; it needs
scores that can be compared between images.
"""

import numpy as np
from scipy.stats import rankdata

from bigain.metrics.intervals import Share, wilson


def top1_precision(winners: np.ndarray, labels: np.ndarray, confidence: float = 0.95) -> Share:
    """Share of images whose winner is one of their labels: (N,) classes, (N, K) true or false -> share."""
    _check_labelled(labels)
    if winners.shape != labels.shape[:1]:
        raise ValueError(f"there must be one winner per image, got {winners.shape} for {len(labels)} images")
    hits = labels[np.arange(len(labels)), winners]
    return wilson(int(hits.sum()), len(hits), confidence)


def ranking_precision(ranking: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Label-ranking average precision of each image, from all its classes, best first: (N, K), (N, K) -> (N,)."""
    _check_labelled(labels)
    classes = np.arange(labels.shape[1])
    if ranking.shape != labels.shape or not (np.sort(ranking, axis=1) == classes).all():
        raise ValueError(
            f"a ranking names each of {len(classes)} classes once for each of {len(labels)} images, best first; "
            f"got shape {ranking.shape} with values {ranking.min()} to {ranking.max()}"
        )
    places = np.empty(ranking.shape)
    np.put_along_axis(places, ranking, np.broadcast_to(classes + 1.0, ranking.shape), axis=1)
    return _average_precision(places, labels, axis=1)


def score_ranking_precision(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Label-ranking average precision of each image, from scores, high is likely: (N, K), (N, K) -> (N,).

    Classes of equal score share the last of their places, so that a constant score gains nothing.
    """
    _check_labelled(labels)
    _check_scores(scores, labels)
    return _average_precision(rankdata(-scores, "max", axis=1), labels, axis=1)


def class_precision(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average precision over images of each class, NaN for a class that no image has: (N, K), (N, K) -> (K,)."""
    _check_labels(labels)
    _check_scores(scores, labels)
    present = labels.any(0)
    result = np.full(labels.shape[1], np.nan)
    places = rankdata(-scores[:, present], "max", axis=0)
    result[present] = _average_precision(places, labels[:, present], axis=0)
    return result


def macro_precision(scores: np.ndarray, labels: np.ndarray) -> float:
    """Mean of `class_precision` over the classes that some image has: class-macro mAP."""
    if not labels.any():
        raise ValueError("no image has a label; a mean over classes needs one class or more")
    return float(np.nanmean(class_precision(scores, labels)))


def _average_precision(places: np.ndarray, labels: np.ndarray, axis: int) -> np.ndarray:
    """Mean over the right ones of (right ones placed no later) / (all placed no later)."""
    right = rankdata(np.where(labels, places, np.inf), "max", axis=axis)
    return np.where(labels, right / places, 0.0).sum(axis) / labels.sum(axis)


def _check_labels(labels: np.ndarray) -> None:
    if labels.ndim != 2 or labels.dtype != bool:
        raise ValueError(f"labels must be (N, K), true where an image has a class, got {labels.dtype} {labels.shape}")


def _check_labelled(labels: np.ndarray) -> None:
    _check_labels(labels)
    if not labels.any(1).all():
        bare = np.flatnonzero(~labels.any(1))
        raise ValueError(f"{len(bare)} of {len(labels)} images have no label, the first is {bare[0]}; leave them out")


def _check_scores(scores: np.ndarray, labels: np.ndarray) -> None:
    if scores.shape != labels.shape:
        raise ValueError(f"scores and labels must be (N, K) both, got {scores.shape} and {labels.shape}")
    if np.isnan(scores).any():
        raise ValueError(f"{int(np.isnan(scores).sum())} scores are not numbers; give untried classes -inf")

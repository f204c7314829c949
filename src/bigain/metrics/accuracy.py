"""Accuracy, for one true class per image."""

import numpy as np

from bigain.metrics.intervals import Share, wilson


def top1(predicted: np.ndarray, truth: np.ndarray, confidence: float = 0.95) -> Share:
    """Share of images whose predicted class is the true one: (N,), (N,) -> share with Wilson interval."""
    hits = _hits(predicted, truth)
    return wilson(int(hits.sum()), len(hits), confidence)


def per_class(predicted: np.ndarray, truth: np.ndarray, confidence: float = 0.95) -> dict[int, Share]:
    """Accuracy on the images of each class; a class without images has no entry: (N,), (N,) -> shares."""
    hits = _hits(predicted, truth)
    return {int(k): wilson(int(hits[truth == k].sum()), int((truth == k).sum()), confidence) for k in np.unique(truth)}


def _hits(predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    if predicted.shape != truth.shape or truth.ndim != 1:
        raise ValueError(f"predicted and true classes must both be (N,), got {predicted.shape} and {truth.shape}")
    return predicted == truth

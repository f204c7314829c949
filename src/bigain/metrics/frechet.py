"""Fréchet distance between two sets of features."""

import numpy as np


def frechet_distance(a: np.ndarray, b: np.ndarray) -> float:
    """|mean a − mean b|² + tr(A + B − 2 (A B)^½), in float64: (n, d), (m, d) -> a number.

    The trace of the root is the sum of the roots of the eigenvalues of A^½ B A^½, which is symmetric, so that
    nothing complex can appear and singular covariances are fine.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"features are (n, d) and (m, d); got {a.shape} and {b.shape}")
    if min(len(a), len(b)) < 2:
        raise ValueError(f"a covariance needs two images or more; got {len(a)} and {len(b)}")
    a, b = a.astype(np.float64), b.astype(np.float64)
    gap = a.mean(0) - b.mean(0)
    cov_a, cov_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    cov_a, cov_b = np.atleast_2d(cov_a), np.atleast_2d(cov_b)
    values, vectors = np.linalg.eigh(cov_a)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    cross = np.sqrt(np.linalg.eigvalsh(root @ cov_b @ root).clip(0)).sum()
    return float(gap @ gap + np.trace(cov_a) + np.trace(cov_b) - 2 * cross)

"""Kernel distance between two sets of features: squared maximum mean discrepancy, unbiased at any number of images."""

from typing import NamedTuple

import numpy as np


class KernelDistance(NamedTuple):
    """Mean over disjoint blocks, its standard error, and the blocks' own."""

    value: float
    error: float
    blocks: tuple[float, ...]


def squared_discrepancy(a: np.ndarray, b: np.ndarray) -> float:
    """Unbiased squared maximum mean discrepancy with the kernel (x·y / d + 1)³: (n, d), (m, d) -> a number."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"features must be (n, d) and (m, d), got {a.shape} and {b.shape}")
    if min(len(a), len(b)) < 2:
        raise ValueError(f"pairs need two images or more in each set, got {len(a)} and {len(b)}")
    a, b = a.astype(np.float64), b.astype(np.float64)
    return _mean_pair(a) + _mean_pair(b) - 2 * float(_kernel(a, b).mean())


def kernel_distance(a: np.ndarray, b: np.ndarray, *, blocks: int = 10, seed: int = 0) -> KernelDistance:
    """Kernel distance over disjoint random blocks (in Inception features: KID): (n, d), (m, d) -> value and error.

    Each set is shuffled and cut into `blocks` parts, so that every image counts once, the parts are independent and
    their spread gives an honest standard error. 10,000 images in 10 blocks are the customary blocks of 1,000.
    """
    if blocks < 2 or min(len(a), len(b)) < 2 * blocks:
        raise ValueError(
            f"{blocks} blocks of two images or more (and two blocks or more) do not fit {len(a)} and {len(b)} images; "
            f"blocks can be 2 to {min(len(a), len(b)) // 2}"
        )
    rng = np.random.default_rng(seed)
    parts_a = np.array_split(a[rng.permutation(len(a))], blocks)
    parts_b = np.array_split(b[rng.permutation(len(b))], blocks)
    values = np.array([squared_discrepancy(p, q) for p, q in zip(parts_a, parts_b, strict=True)])
    return KernelDistance(float(values.mean()), float(values.std(ddof=1) / np.sqrt(blocks)), tuple(values.tolist()))


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a @ b.T / a.shape[1] + 1) ** 3


def _mean_pair(x: np.ndarray) -> float:
    """Mean of the kernel over pairs of different images."""
    values = _kernel(x, x)
    return float((values.sum() - np.trace(values)) / (len(x) * (len(x) - 1)))

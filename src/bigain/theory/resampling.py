"""Statistics of images with bootstrap intervals: every statistic is computed for all resamples at once."""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata


class Resampling(NamedTuple):
    """Weights of n images in each resample: (1 + D, n). The first are equal, so that it gives the value itself."""

    weights: np.ndarray

    @classmethod
    def of(cls, n: int, draws: int, seed: int = 0) -> "Resampling":
        if n < 2:
            raise ValueError(f"a bootstrap needs two images or more, got {n}")
        return cls(np.concatenate([np.full((1, n), 1 / n), drawn(np.arange(n), n, draws, seed)]))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Weighted means over images: (n, ...) -> (1 + D, ...)."""
        return np.tensordot(self.weights, np.asarray(values, np.float64), 1)


def drawn(images: np.ndarray, n: int, draws: int, seed: int) -> np.ndarray:
    """Weights of resamples of these images, of n: (m,) -> (D, n)."""
    rng = np.random.default_rng(seed)
    chosen = images[rng.integers(0, len(images), (draws, len(images)))]
    flat = chosen + n * np.arange(draws)[:, None]
    return np.bincount(flat.ravel(), minlength=draws * n).reshape(draws, n) / len(images)


class Halves(NamedTuple):
    """Resamples of two halves of the images that share none: weights (S, n) as split, and (D, n) drawn within them."""

    plain: tuple[Resampling, Resampling]
    drawn: tuple[Resampling, Resampling]

    @classmethod
    def of(cls, n: int, draws: int, splits: int = 20, seed: int = 0) -> "Halves":
        """The images are split several times anew, so that no one split decides."""
        if n < 4:
            raise ValueError(f"two halves need four images or more, got {n}")
        rng = np.random.default_rng(seed)
        sides = [np.array_split(rng.permutation(n), 2) for _ in range(splits)]
        each = -(-draws // splits)

        def resamples(side: int) -> tuple[Resampling, Resampling]:
            plain = np.concatenate([np.bincount(pair[side], minlength=n)[None] / len(pair[side]) for pair in sides])
            again = [drawn(pair[side], n, each, 2 * number + side) for number, pair in enumerate(sides)]
            return Resampling(plain), Resampling(np.concatenate(again))

        first, second = resamples(0), resamples(1)
        return cls((first[0], second[0]), (first[1], second[1]))


def estimate(values: np.ndarray) -> dict[str, float | None]:
    """A statistic with its 95 % percentile interval: (1 + D,), the statistic itself first -> value, low, high."""
    return interval(float(values[0]), values[1:])


def interval(value: float, resampled: np.ndarray) -> dict[str, float | None]:
    """No bounds where more than a few resamples have no number: JSON has no NaN."""
    low, high = np.quantile(resampled, [0.025, 0.975], method="nearest")
    return {"value": finite(value), "low": finite(low), "high": finite(high)}


def finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def spearman(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rank correlation row by row, ties at their mean rank: (..., S), (..., S) -> (...); 0 where all are equal."""
    ranks = [rankdata(x, axis=-1) - (x.shape[-1] + 1) / 2 for x in (a, b)]
    spread = np.sqrt(np.square(ranks[0]).sum(-1) * np.square(ranks[1]).sum(-1))
    return (ranks[0] * ranks[1]).sum(-1) / np.where(spread > 0, spread, 1)

"""What the theory says of one setting, beside what was measured, as plain values for JSON.

Shapes: n images, K classes, R trials, M rivals, B bands; D resamples.
"""

from typing import Any, NamedTuple

import numpy as np

from bigain.metrics.accuracy import top1
from bigain.metrics.intervals import Share
from bigain.metrics.paired import share_difference
from bigain.theory.criterion import exact_slack, first_order_slack, margin_richness, predicted_moments, ratio_change
from bigain.theory.margins import (
    BandMoments,
    Moments,
    cantelli,
    gaussian_miss,
    moments,
    paired_differences,
    resampled_miss,
)
from bigain.theory.resampling import Resampling, estimate, finite

COUNTED = (1, 5)  # trials for which misses are counted, beside all of them
Found = dict[str, Any]


class Measured(NamedTuple):
    """What was measured under one setting; without bands where only errors are known."""

    errors: np.ndarray  # (n, K, R), NaN where a class was not tried
    predicted: np.ndarray  # (n,)
    bands: np.ndarray | None = None  # (n, K, R, B)
    differences: np.ndarray | None = None  # (n, B, 3): see `powers`, of class differences without and with compression
    tokens: np.ndarray | None = None  # (n, B, 3): the same of tokens before and after merging
    exact: tuple[np.ndarray, np.ndarray] | None = None  # gain and aliased share of a linear map: (B,), (B,)

    def of(self, images: np.ndarray) -> "Measured":
        """Some of the images: (n,) true or false."""
        arrays = (None if part is None else part[images] for part in self[:5])
        return Measured(*arrays, exact=self.exact)  # type: ignore[arg-type, misc]


class Pair(NamedTuple):
    """A setting beside the uncompressed model on the same trials, in all resamples."""

    measured: Measured
    before: Moments
    after: Moments
    given: np.ndarray  # (n, M, R): D of the setting, NaN where one of the two has none
    right: np.ndarray  # (n,) whether the setting is right, and the uncompressed model
    dense_right: np.ndarray

    def sides(self, resampling: Resampling) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Pooled mu and sigma², before and after: (D,) each."""
        parts = (self.before.mean, self.before.variance, self.after.mean, self.after.variance)
        return tuple(resampling.mean(part) for part in parts)  # type: ignore[return-value]


def pair_up(measured: Measured, dense: Measured, truth: np.ndarray, rivals: np.ndarray) -> Pair:
    """Both on the trials that both ran; the rivals are the uncompressed model's, the same for all settings."""
    given, other = (paired_differences(one.errors, truth, rivals) for one in (measured, dense))
    common = np.where(np.isfinite(given) & np.isfinite(other), 0.0, np.nan)
    parts = [None if one.bands is None else paired_differences(one.bands, truth, rivals) for one in (dense, measured)]
    before, after = (moments(d + common, b) for d, b in zip((other, given), parts, strict=True))
    return Pair(measured, before, after, given + common, measured.predicted == truth, dense.predicted == truth)


def enough(measured: Measured, dense: Measured, truth: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    """Images of which both ran two trials or more of the true class and of each rival: -> (n,) true or false."""
    both = [np.isfinite(paired_differences(one.errors, truth, rivals)) for one in (measured, dense)]
    return ((both[0] & both[1]).sum(2) >= 2).all(1)


def describe(pair: Pair, resampling: Resampling, upper: np.ndarray) -> Found:
    """One setting: accuracy, moments, misses, criterion and, where there are bands, what they say."""
    mean, variance, mean_after, variance_after = sides = pair.sides(resampling)
    found: Found = {
        "accuracy": shared(top1(pair.right.astype(int), np.ones(len(pair.right), int))),
        "change": share_difference(pair.right, pair.dense_right).as_json(),
        "mu": estimate(mean_after),
        "sigma": estimate(np.sqrt(variance_after)),
        "r": estimate(np.sqrt(variance_after) / mean_after),
        "ratio": estimate(ratio_change(*sides)),
        "margin_kept": estimate(mean_after / mean),
        "spread_kept": estimate(np.sqrt(variance_after / variance)),
        "criterion": {"exact": estimate(exact_slack(*sides)), "first_order": estimate(first_order_slack(*sides))},
        **misses(pair.given),
    }
    if pair.before.bands is not None and pair.after.bands is not None:
        found |= banded(pair.measured, (pair.before.bands, pair.after.bands), resampling, upper)
    return found


def shared(share: Share) -> Found:
    return {"value": share.value, "low": share.low, "high": share.high, "n": share.n}


def misses(differences: np.ndarray) -> Found:
    """How often the true class loses to its strongest rival, beside Cantelli's bound: (n, M, R).

    An image's own trials are taken for the whole population, so that the bound must hold; images whose mean is not
    positive miss with any number of trials, and the bound says nothing of them.
    """
    first = differences[:, 0]
    first = first[:, np.isfinite(first).all(0)]
    if first.shape[1] < 2:
        return {"misses": [], "no_margin": None}
    mean, variance = first.mean(1), first.var(1)
    good = (mean > 0) & (variance > 0)
    rows = []
    for trials in sorted({count for count in (*COUNTED, first.shape[1]) if count <= first.shape[1]}):
        real = resampled_miss(first, trials)
        sides = mean[good], variance[good], trials
        found = {"bound": cantelli(*sides), "gaussian": gaussian_miss(*sides), "real": real[good], "all_images": real}
        rows.append({"trials": trials} | {name: average(values) for name, values in found.items()})
    return {"misses": rows, "no_margin": float((mean <= 0).mean())}


def average(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def banded(
    measured: Measured, sides: tuple[BandMoments, BandMoments], resampling: Resampling, upper: np.ndarray
) -> Found:
    """Margin and variance by band, what crosses bands, and the response with what it predicts; sides: without, with."""
    (dense_means, dense_covariance), (means, covariance) = (
        (resampling.mean(side.mean), resampling.mean(side.covariance)) for side in sides
    )
    variances = np.diagonal(covariance, axis1=1, axis2=2)
    rich = margin_richness(means, covariance)
    found: Found = {
        "bands": {"mu": each(means), "sigma": each(np.sqrt(variances)), "richness": each(rich)},
        "covariance": covariance[0].tolist(),
        "neglected": estimate(1 - variances.sum(1) / covariance.sum((1, 2))),
        "detail_richness": estimate(rich[:, upper].sum(1)),
        "detail_margin": estimate(means[:, upper].sum(1) / means.sum(1)),
        "response": {},
        "predicted": {},
    }
    for name, response in responses(measured, resampling).items():
        found["response"][name] = {"gain": each(response), **detail(measured, name, resampling, upper)}
        found["predicted"][name] = foreseen(response, dense_means, dense_covariance)
    if measured.exact is not None:
        gain, aliased = measured.exact
        found["response"]["exact"] = {"gain": [{"value": finite(g)} for g in gain], "aliased": aliased.tolist()}
        exact = np.broadcast_to(gain, dense_means.shape)
        found["predicted"]["exact"] = foreseen(exact, dense_means, dense_covariance)
    if measured.differences is not None:
        found["difference_error"] = estimate(difference_error(measured, resampling))
    return found


def each(values: np.ndarray) -> list[dict[str, float | None]]:
    """An estimate for each band: (1 + D, B)."""
    return [estimate(column) for column in values.T]


def responses(measured: Measured, resampling: Resampling) -> dict[str, np.ndarray]:
    """Regressed responses by what they are of: (1 + D, B) each; 1 where a band has no power."""
    return {name: slope(resampling.mean(found)) for name, found in linked(measured).items()}


def linked(measured: Measured) -> dict[str, np.ndarray]:
    parts = {"tokens": measured.tokens, "differences": measured.differences}
    return {name: part for name, part in parts.items() if part is not None}


def slope(sums: np.ndarray) -> np.ndarray:
    """Least squares of y on x from Σ|x|² and Σ x·y: (..., 3) -> (...)."""
    power = sums[..., 0]
    return np.where(power > 0, sums[..., 1] / np.where(power > 0, power, 1), 1.0)


def detail(measured: Measured, name: str, resampling: Resampling, upper: np.ndarray) -> Found:
    """The response over all upper bands, and over the lower ones."""
    sums = resampling.mean(linked(measured)[name])
    high, low = slope(sums[:, upper].sum(1)), slope(sums[:, ~upper].sum(1))
    return {"detail": estimate(high), "coarse": estimate(low), "low_pass": estimate(low - high)}


def foreseen(response: np.ndarray, means: np.ndarray, covariance: np.ndarray) -> Found:
    """Predicted mu'/mu, sigma'/sigma and r'/r, as in the paper and with the covariances that it neglects."""
    mean, bare, whole = predicted_moments(response, means, covariance)
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).sum(1))
    total = np.sqrt(covariance.sum((1, 2)))
    kept = mean / means.sum(1)
    return {
        "margin_kept": estimate(kept),
        "spread_kept": estimate(np.sqrt(bare) / spread),
        "ratio": estimate(np.sqrt(bare) / spread / kept),
        "spread_kept_with_covariances": estimate(np.sqrt(whole) / total),
        "ratio_with_covariances": estimate(np.sqrt(whole) / total / kept),
    }


def difference_error(measured: Measured, resampling: Resampling) -> np.ndarray:
    """Relative error of class differences: -> (D,)."""
    assert measured.differences is not None
    xx, xy, yy = np.moveaxis(resampling.mean(measured.differences).sum(1), -1, 0)
    return np.sqrt(np.maximum(xx - 2 * xy + yy, 0) / xx)

"""Weights of timesteps, fitted to labelled errors: regularised, cross-validated, steps and weights chosen together.

Errors become logits, −Σ w_r e_kr, so the cross-entropy of the true classes is convex in the weights. The penalty pulls
towards weights that are equal in units of each timestep's spread.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from bigain.classify.calibration import fit_scale

RIVALS = 15  # the nearest wrong classes of each image; others hardly matter
STRENGTHS = (0.5, 2.0, 8.0, 32.0)  # of the penalty, divided by the number of images
FOLDS = 5
FEWEST = 40  # images that a fit needs; below that weights are equal
CLEARLY = 1.0  # standard errors by which a fit must be better than equal weights
NEAREST = 4  # classes of an image whose differences matter to the end


class Fit(NamedTuple):
    """Chosen columns in their order with the weight of each, and why the weights are equal where they are."""

    columns: tuple[int, ...]
    weights: np.ndarray  # natural ones: −Σ w e are logits
    note: str = ""


class Table(NamedTuple):
    """Errors of labelled images in units of each column's spread: the true class first, then its nearest rivals."""

    errors: np.ndarray  # (n, K, R), class-centred
    spreads: np.ndarray  # (R,)

    def rows(self, rows: np.ndarray) -> "Table":
        return Table(self.errors[rows], self.spreads)

    def columns(self, columns: Sequence[int]) -> "Table":
        return Table(self.errors[..., list(columns)], self.spreads[list(columns)])


def make_table(errors: np.ndarray, truth: np.ndarray) -> Table:
    """(n, K, R) errors, (n,) true classes -> Table."""
    centred = errors - errors.mean(1, keepdims=True)
    spreads = np.maximum(centred.std((0, 1)), 1e-300)
    scaled = centred / spreads
    order = scaled.mean(2)
    order[np.arange(len(truth)), truth] = -np.inf
    nearest = order.argsort(1, kind="stable")[:, : RIVALS + 1]
    return Table(np.take_along_axis(scaled, nearest[..., None], 1), spreads)


def fit_profile(errors: np.ndarray, truth: np.ndarray, trials: int) -> Fit:
    """The best `trials` columns of errors (n, K, R) for true classes (n,), in their order of use.

    Where images are too few, or the fit is not clearly better than equal weights on images that it has not seen, the
    columns are evenly spaced and equally weighted, and `note` says why.
    """
    table, trials = make_table(errors, truth), min(trials, errors.shape[2])
    even = spread_out(errors.shape[2], trials)
    if len(truth) < FEWEST:
        return equal_fit(table, even, f"{len(truth)} images are too few to fit weights, which takes {FEWEST}")
    strength = min(STRENGTHS, key=lambda c: float(np.mean(held_out(table, range(errors.shape[2]), c))))
    fitted, equal, logits = [], [], []
    for train, test in folds(len(truth)):
        columns, weights = select(table.rows(train), trials, strength)
        logits.append(-(table.errors[test][..., list(columns)] @ weights))
        fitted.append(losses(logits[-1]))
        equal.append(losses(scaled_equal(table.rows(train), table.rows(test), even)))
    gain = np.concatenate(equal) - np.concatenate(fitted)
    if gain.mean() <= CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)):
        return equal_fit(table, even, f"fitted weights are not clearly better than equal ones on {len(truth)} images")
    columns, weights = select(table, trials, strength)
    found = weights * temper(np.concatenate(logits)) / table.spreads[list(columns)]
    used = [i for i in range(len(columns)) if found[i] > 0]
    return Fit(tuple(columns[i] for i in used), found[used])


def rival_spreads(errors: np.ndarray) -> np.ndarray:
    """Root mean square of the differences between the nearest classes of each image: (n, K, R) -> (R,)."""
    centred = errors - errors.mean(1, keepdims=True)
    order = (centred / np.maximum(centred.std((0, 1)), 1e-300)).mean(2).argsort(1, kind="stable")[:, :NEAREST]
    near = np.take_along_axis(centred, order[..., None], 1)
    count = near.shape[1]
    # the mean over pairs of (a - b)² is twice the variance, with count - 1 in its denominator
    return np.maximum(np.sqrt(2 * near.var(1, ddof=1).mean(0)) if count > 1 else near.std((0, 1)), 1e-300)


def select(table: Table, trials: int, strength: float) -> tuple[list[int], np.ndarray]:
    """Columns chosen greedily, each so that the cross-entropy of all with their best weights is lowest."""
    chosen: list[int] = []
    weights = np.zeros(0)
    while len(chosen) < trials:
        rest = [r for r in range(table.errors.shape[2]) if r not in chosen]
        tried = [fit_weights(table.columns([*chosen, r]), strength, np.append(weights, 0.1)) for r in rest]
        best = int(np.argmin([loss for _, loss in tried]))
        chosen, weights = [*chosen, rest[best]], tried[best][0]
    return chosen, weights


def fit_weights(table: Table, strength: float, start: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Non-negative weights with the lowest penalised cross-entropy, and that cross-entropy without the penalty."""
    errors, count = table.errors, table.errors.shape[2]
    pull = strength / len(errors)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        chances = log_softmax(-(errors @ weights), axis=1)
        slope = errors[:, 0] - np.einsum("nk,nkr->nr", np.exp(chances), errors)
        away = weights - weights.mean()
        return -chances[:, 0].mean() + pull * away @ away, slope.mean(0) + 2 * pull * away

    found = minimize(
        loss,
        np.ones(count) if start is None else start,
        jac=True,
        bounds=[(0, None)] * count,
        method="L-BFGS-B",
        options={"maxiter": 60},
    )
    away = found.x - found.x.mean()
    return found.x, float(found.fun - pull * away @ away)


def held_out(table: Table, columns: Sequence[int], strength: float) -> np.ndarray:
    """Cross-entropy of each image under weights of these columns that were fitted without it: (n,)."""
    part = table.columns(columns)
    return np.concatenate(
        [
            losses(-(part.errors[test] @ fit_weights(part.rows(train), strength)[0]))
            for train, test in folds(len(part.errors))
        ]
    )


def losses(logits: np.ndarray) -> np.ndarray:
    """Cross-entropy of the first class: (n, K) -> (n,)."""
    return -log_softmax(logits, axis=1)[:, 0]


def scaled_equal(train: Table, test: Table, columns: Sequence[int]) -> np.ndarray:
    """Logits of equal weights at the best temperature of other images: (n, K)."""
    return -raw_sum(test, columns) * equal_scale(train, columns)


def equal_scale(table: Table, columns: Sequence[int]) -> float:
    total = raw_sum(table, columns)
    gaps = total - total.min(1, keepdims=True)
    return fit_scale(gaps, np.zeros(len(gaps), dtype=int), 1 / (float(gaps.mean()) or 1.0)).scale


def raw_sum(table: Table, columns: Sequence[int]) -> np.ndarray:
    return (table.errors[..., list(columns)] * table.spreads[list(columns)]).sum(2)


def equal_fit(table: Table, columns: Sequence[int], note: str) -> Fit:
    return Fit(tuple(columns), np.full(len(columns), equal_scale(table, columns)), note)


def temper(logits: np.ndarray) -> float:
    """The factor that makes held-out logits of the true class, which is first, as sure as they should be."""
    gaps = logits.max(1, keepdims=True) - logits
    return float(np.clip(fit_scale(gaps, np.zeros(len(gaps), dtype=int), 1.0).scale, 0.1, 2.0))


def folds(n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on and rows to test on, always the same."""
    order = np.random.default_rng(0).permutation(n)
    for fold in range(FOLDS):
        test = np.arange(n) % FOLDS == fold
        yield order[~test], order[test]


def spread_out(count: int, trials: int) -> list[int]:
    """Evenly spaced columns, ordered so that the first few are spread out, too: 20, 4 -> 12, 2, 17, 7."""
    places = [(2 * i + 1) * count // (2 * trials) for i in range(trials)]
    golden = (5**0.5 - 1) / 2
    return [places[i] for i in np.argsort(np.argsort([(0.5 + golden * i) % 1 for i in range(trials)]))]

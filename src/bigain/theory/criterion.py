"""When does compression lower r = σ / μ? The paper's criterion, exact and to first order, and its spectral model."""

import numpy as np


def exact_slack(
    mean: np.ndarray, variance: np.ndarray, mean_after: np.ndarray, variance_after: np.ndarray
) -> np.ndarray:
    """Δσ² − 2 σ²/μ Δμ + σ²/μ² Δμ², in units of σ²: positive if and only if r falls, for positive μ and μ'."""
    lost = 1 - mean_after / mean
    return (1 - variance_after / variance) - 2 * lost + lost**2


def first_order_slack(
    mean: np.ndarray, variance: np.ndarray, mean_after: np.ndarray, variance_after: np.ndarray
) -> np.ndarray:
    """Δσ² − 2 σ²/μ Δμ, in units of σ²: where it is positive, r falls, however large Δμ is (for positive μ and μ')."""
    return (1 - variance_after / variance) - 2 * (1 - mean_after / mean)


def ratio_change(
    mean: np.ndarray, variance: np.ndarray, mean_after: np.ndarray, variance_after: np.ndarray
) -> np.ndarray:
    """r' / r; infinite where no margin is left."""
    kept = mean_after / mean
    return np.where(kept > 0, np.sqrt(variance_after / variance) / np.where(kept > 0, kept, 1), np.inf)


def predicted_moments(
    response: np.ndarray, band_mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ' = Σ H_k μ_k; σ'² = Σ H_k² σ_k² as in the paper; and Σ H_j H_k C_jk with the covariances that it neglects.

    (..., B), (..., B), (..., B, B) -> (...), (...), (...).
    """
    variances = np.diagonal(covariance, axis1=-2, axis2=-1)
    return (
        (response * band_mean).sum(-1),
        (response**2 * variances).sum(-1),
        np.einsum("...i,...j,...ij->...", response, response, covariance),
    )


def margin_richness(band_mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Share of the margin less share of the variance: (..., B), (..., B, B) -> (..., B), which sum to 0.

    Where it is positive, shrinking the band a little raises r: the criterion to first order for that band alone, with
    its covariances to the others.
    """
    margin = band_mean / band_mean.sum(-1, keepdims=True)
    own = covariance.sum(-1)
    return margin - own / own.sum(-1, keepdims=True)

import numpy as np
import pytest
import torch
from torchmetrics.image.kid import poly_mmd

from bigain.metrics.kernel import kernel_distance, squared_discrepancy


def slow_discrepancy(a: np.ndarray, b: np.ndarray) -> float:
    """All pairs, one at a time."""

    def kernel(x: np.ndarray, y: np.ndarray) -> float:
        return (float(x @ y) / len(x) + 1) ** 3

    within = [np.mean([kernel(x, y) for i, x in enumerate(s) for j, y in enumerate(s) if i != j]) for s in (a, b)]
    return float(sum(within) - 2 * np.mean([kernel(x, y) for x in a for y in b]))


def test_discrepancy_is_the_slow_one() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(7, 3)), rng.normal(1, 1, size=(9, 3))
    assert squared_discrepancy(a, b) == pytest.approx(slow_discrepancy(a, b))


def test_discrepancy_is_torchmetrics() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(50, 16)), rng.normal(0.2, 1, size=(50, 16))
    assert squared_discrepancy(a, b) == pytest.approx(float(poly_mmd(torch.tensor(a), torch.tensor(b))), rel=1e-9)


def test_real_against_real_is_zero_at_few_images_too() -> None:
    """Unbiased: the mean over many small draws is zero within its error, and the errors have the right size."""
    rng = np.random.default_rng(0)
    found = [kernel_distance(rng.normal(size=(40, 8)), rng.normal(size=(40, 8)), seed=i) for i in range(200)]
    values = np.array([one.value for one in found])
    assert abs(values.mean()) < 3 * values.std() / np.sqrt(200)
    assert np.mean([one.error**2 for one in found]) == pytest.approx(values.var(), rel=0.3)


def test_distance_grows_with_the_shift() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 8)), rng.normal(size=(300, 8))
    values = [kernel_distance(a + shift, b).value for shift in (0, 0.2, 0.5, 1)]
    assert values == sorted(values)


def test_one_seed_gives_one_value() -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    assert kernel_distance(x[:30], x[30:], seed=3) == kernel_distance(x[:30], x[30:], seed=3)
    assert kernel_distance(x[:30], x[30:], seed=3) != kernel_distance(x[:30], x[30:], seed=4)


def test_errors_say_what_came() -> None:
    with pytest.raises(ValueError, match=r"10 blocks .* do not fit 12 and 90 images; blocks can be 2 to 6"):
        kernel_distance(np.zeros((12, 2)), np.zeros((90, 2)))
    with pytest.raises(ValueError, match=r"got \(3, 2\) and \(3, 4\)"):
        squared_discrepancy(np.zeros((3, 2)), np.zeros((3, 4)))
    with pytest.raises(ValueError, match="got 1 and 3"):
        squared_discrepancy(np.zeros((1, 2)), np.zeros((3, 2)))

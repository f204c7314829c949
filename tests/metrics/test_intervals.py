import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap

from bigain.metrics.intervals import Estimate, bootstrap_mean, median_interval, wilson


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 7), (870, 1000)])
def test_wilson_is_scipys(hits: int, n: int) -> None:
    share, theirs = wilson(hits, n), binomtest(hits, n).proportion_ci(method="wilson")
    assert share.low == pytest.approx(theirs.low, abs=1e-9)
    assert share.high == pytest.approx(theirs.high, abs=1e-9)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_the_closed_form(counts: tuple[int, int]) -> None:
    hits, n = counts
    z, p = 1.959963984540054, hits / n
    centre, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    share = wilson(hits, n)
    assert share.low == pytest.approx((centre - half) / (1 + z**2 / n), abs=1e-9)
    assert share.high == pytest.approx((centre + half) / (1 + z**2 / n), abs=1e-9)


def test_wilson_needs_hits_among_n() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)


def test_bootstrap_is_scipys() -> None:
    values = np.random.default_rng(3).gamma(1.0, size=200)
    mine = bootstrap_mean(values, confidence=0.9, seed=5)
    theirs = bootstrap(
        (values,), np.mean, confidence_level=0.9, method="percentile", rng=np.random.default_rng(5), batch=1000
    ).confidence_interval
    assert mine.value == pytest.approx(values.mean())
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)


def test_bootstrap_is_about_normal_for_many_images() -> None:
    values = np.random.default_rng(0).normal(2, 1, 4000)
    found, error = bootstrap_mean(values, resamples=2000), values.std() / np.sqrt(len(values))
    assert (found.high - found.low) == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_bootstrap_repeats_and_follows_the_seed() -> None:
    values = np.random.default_rng(0).normal(size=50)
    assert bootstrap_mean(values, seed=1) == bootstrap_mean(values, seed=1)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values, seed=2)


def test_bootstrap_does_not_depend_on_how_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=51)
    whole = bootstrap_mean(values, resamples=500)
    monkeypatch.setattr("bigain.metrics.intervals.DRAWS", 51 * 7)
    assert bootstrap_mean(values, resamples=500) == whole


def test_bootstrap_of_a_constant_has_no_width() -> None:
    assert bootstrap_mean(np.full(30, 0.25)) == Estimate(0.25, 0.25, 0.25, 30)


@pytest.mark.parametrize(
    ("values", "text"),
    [(np.zeros((2, 2)), r"two images or more, got shape \(2, 2\)"), (np.array([1, np.nan]), r"\[1\]")],
)
def test_bootstrap_needs_finite_values(values: np.ndarray, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bootstrap_mean(values)


def test_an_estimate_reads_well() -> None:
    assert str(Estimate(0.0123456, -0.001, 0.02, 500)) == "0.01235 [-0.001, 0.02], n = 500"


def test_the_interval_of_a_median_is_that_of_the_sign_test() -> None:
    for n in (6, 11, 40):
        found = median_interval(np.arange(n, dtype=float)[::-1])
        assert found.value == pytest.approx((n - 1) / 2)
        outside = found.low  # values are their own ranks
        assert found.high == n - 1 - outside
        assert binomtest(int(outside), n).pvalue <= 0.05 < binomtest(int(outside) + 1, n).pvalue
    with pytest.raises(ValueError, match="one value or more"):
        median_interval(np.array([]))


@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_median_of_few_values_has_no_interval(n: int) -> None:
    found = median_interval(np.arange(n, dtype=float))
    assert not found.bounded
    assert found.as_json() == {"value": (n - 1) / 2, "low": None, "high": None, "n": n}
    assert str(found) == f"{(n - 1) / 2:g}, n = {n}: too few for an interval"
    assert median_interval(np.arange(float(n)), confidence=0.5 if n > 1 else 0.0).bounded  # it is the confidence


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    found = [median_interval(rng.exponential(size=15)) for _ in range(2000)]
    held = np.mean([interval.low <= np.log(2) <= interval.high for interval in found])
    assert 0.95 <= held < 0.98

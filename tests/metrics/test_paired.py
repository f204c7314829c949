import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from statsmodels.stats.contingency_tables import mcnemar as their_mcnemar
from statsmodels.stats.multitest import multipletests

from bigain.metrics.paired import holm, mcnemar, mean_difference, share_difference

COUNTS = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))


def pairs(both: int, only_a: int, only_b: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    a = np.repeat([True, True, False, False], [both, only_a, only_b, neither])
    b = np.repeat([True, False, True, False], [both, only_a, only_b, neither])
    return a, b


@given(COUNTS)
def test_mcnemar_is_statsmodels(counts: tuple[int, int, int, int]) -> None:
    both, only_a, only_b, neither = counts
    assume(only_a + only_b)
    found = mcnemar(*pairs(*counts))
    theirs = their_mcnemar([[both, only_a], [only_b, neither]], exact=True).pvalue
    assert found.p == pytest.approx(theirs, rel=1e-9)
    assert (found.only_a, found.only_b, found.n) == (only_a, only_b, sum(counts))


def test_methods_that_agree_do_not_differ() -> None:
    assert mcnemar(*pairs(3, 0, 0, 4)).p == 1
    assert str(mcnemar(*pairs(3, 10, 2, 4))) == "10 against 2 of 19 images, p = 0.039"


def test_the_score_interval_ends_at_zero_where_mcnemar_says_so() -> None:
    table = (120, 25, 11, 44)
    p = float(their_mcnemar([[120, 25], [11, 44]], exact=False, correction=False).pvalue)
    found = share_difference(*pairs(*table), confidence=1 - p)
    assert found.value == pytest.approx(14 / 200)
    assert found.low == pytest.approx(0, abs=1e-9)


def slow_score(difference: float, only_a: int, only_b: int, n: int) -> float:
    """The score statistic, the other chance found by searching for the largest likelihood."""
    low = max(0.0, -difference)

    def surprise(chance_b: float) -> float:
        chances = (chance_b + difference, chance_b, 1 - 2 * chance_b - difference)
        counts = (only_a, only_b, n - only_a - only_b)
        return -sum(k * np.log(max(p, 1e-300)) for k, p in zip(counts, chances, strict=True) if k)

    best = minimize_scalar(surprise, bounds=(low, (1 - difference) / 2), method="bounded", options={"xatol": 1e-12}).x
    variance = n * (2 * best + difference - difference**2)
    return (only_a - only_b - n * difference) / np.sqrt(variance)


@pytest.mark.parametrize("table", [(50, 12, 4, 30), (10, 9, 3, 8), (400, 60, 55, 85), (3, 5, 1, 2), (20, 7, 2, 0)])
def test_the_score_interval_is_where_a_slow_score_test_stops(table: tuple[int, int, int, int]) -> None:
    _, only_a, only_b, _ = table
    found = share_difference(*pairs(*table))
    z = norm.ppf(0.975)
    assert slow_score(found.low, only_a, only_b, sum(table)) == pytest.approx(z, rel=1e-4)
    assert slow_score(found.high, only_a, only_b, sum(table)) == pytest.approx(-z, rel=1e-4)


@given(COUNTS)
def test_the_score_interval_turns_with_its_arguments(counts: tuple[int, int, int, int]) -> None:
    assume(sum(counts))
    a, b = pairs(*counts)
    there, back = share_difference(a, b), share_difference(b, a)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-9)
    assert -1 <= there.low <= there.value <= there.high <= 1
    assert there.low < there.high


def test_the_score_interval_has_a_width_without_discordant_pairs() -> None:
    found, z2 = share_difference(*pairs(30, 0, 0, 10)), norm.ppf(0.975) ** 2
    assert (found.low, found.high) == pytest.approx((-z2 / (40 + z2), z2 / (40 + z2)))
    always, nearly = share_difference(*pairs(0, 40, 0, 0)), share_difference(*pairs(1, 10**5, 0, 0))
    assert (always.low, always.high) == pytest.approx(((40 - z2) / (40 + z2), 1))
    assert nearly.low == pytest.approx((10**5 - z2) / (10**5 + z2), abs=1e-4)


def test_the_score_interval_covers_what_it_says() -> None:
    rng, chances = np.random.default_rng(0), [0.6, 0.15, 0.08, 0.17]
    tables = rng.multinomial(80, chances, size=300)
    found = [share_difference(*pairs(*table)) for table in tables]
    covered = np.mean([one.low <= 0.07 <= one.high for one in found])
    assert 0.92 <= covered <= 0.98


def test_a_paired_difference_knows_that_images_are_shared() -> None:
    rng = np.random.default_rng(0)
    hardness = rng.normal(0, 10, 300)
    a, b = hardness + rng.normal(0.5, 1, 300), hardness + rng.normal(0, 1, 300)
    found = mean_difference(a, b)
    assert found.value == pytest.approx(a.mean() - b.mean())
    assert found.low > 0
    assert found.high - found.low < 0.5
    back = mean_difference(b, a)
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))


@pytest.mark.parametrize("p_values", [[0.3], [0.04, 0.001, 0.03, 0.03], [0.9, 0.6, 0.5], [0, 1, 0.02, 0.01]])
def test_holm_is_statsmodels(p_values: list[float]) -> None:
    assert holm(np.array(p_values)) == pytest.approx(multipletests(p_values, method="holm")[1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_its_definition(p_values: list[float]) -> None:
    """The largest, over p-values no larger than this one, of p times the number of those not smaller."""
    ordered = sorted(p_values)
    steps = [min(1.0, p * (len(ordered) - i)) for i, p in enumerate(ordered)]
    slow = {p: max(steps[: i + 1]) for i, p in reversed(list(enumerate(ordered)))}
    assert holm(np.array(p_values)) == pytest.approx([slow[p] for p in p_values])


def test_errors_say_what_came() -> None:
    yes, no = np.ones(3, bool), np.zeros(2, bool)
    with pytest.raises(ValueError, match=r"same images, \(n,\) both, got \(3,\) and \(2,\)"):
        mcnemar(yes, no)
    with pytest.raises(ValueError, match="True or False for each image, got int64 and bool"):
        share_difference(np.array([0, 1, 2]), yes)
    with pytest.raises(ValueError, match=r"got \(3,\) and \(2,\)"):
        mean_difference(yes, no)
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        holm(np.array([0.5, 1.5]))

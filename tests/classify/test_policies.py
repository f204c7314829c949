import numpy as np
import pytest

from bigain.classify.policies import PAPER, Exhaustive, Stages, parse_policy
from bigain.classify.race import Race, behind, critical_value, noise_variance
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler, Trial
from bigain.profile import TimestepProfile


def play(policy: object, means: np.ndarray, rng: np.random.Generator, shared: float = 3.0) -> ClassifierState:
    """Run a policy on simulated errors: a part that all classes share, and independent normal parts."""
    state = ClassifierState.empty(len(means))
    for trials in policy.rounds(state, TimestepSampler("even", 1000, int(rng.integers(2**62)))):
        noise = rng.normal(size=(len(means), len(trials))) + shared * rng.normal(size=len(trials))
        state.add(trials, (means[:, None] + noise)[state.alive])
    return state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("confidence", "means"),
    [
        (0.9, [0.0, 0.3, 0.3, 0.6, 1.0, 1.5]),
        (0.9, [0.0] * 2),
        (0.5, [0.0] * 2),
        (0.9, [0.0] * 10),
        (0.5, [0.0, 0.0, 2.0, 2.0, 2.0]),
    ],
    ids=["spread", "two equals", "two equals, loose", "ten equals", "two ahead, loose"],
)
def test_a_race_keeps_its_promise(confidence: float, means: list[float]) -> None:
    rng = np.random.default_rng(0)
    policy = Race(confidence=confidence)
    runs = 1200
    lost = sum(0 not in play(policy, np.array(means), rng).alive for _ in range(runs))
    assert lost / runs <= 1 - confidence


UNEVEN = TimestepProfile(
    tuple(range(100, 900, 50)), tuple(np.geomspace(0.2, 5, 16)), tuple(np.geomspace(3, 0.3, 16)[::-1])
)


@pytest.mark.slow
@pytest.mark.parametrize(("confidence", "classes"), [(0.9, 2), (0.5, 5), (0.9, 10)])
def test_a_weighted_race_keeps_its_promise_with_unequal_variances(confidence: float, classes: int) -> None:
    rng = np.random.default_rng(1)
    runs, lost = 1200, 0
    for _ in range(runs):
        state = ClassifierState.empty(classes)
        for trials in Race(confidence).rounds(state, TimestepSampler(UNEVEN, 1000)):
            spread = np.array([trial.spread for trial in trials])
            errors = spread * rng.normal(size=(classes, len(trials))) + 3 * rng.normal(size=len(trials))
            state.add(trials, errors[state.alive])
        lost += 0 not in state.alive
    assert lost / runs <= 1 - confidence


def test_means_and_statistics_follow_the_weights() -> None:
    state = ClassifierState.empty(2)
    state.add([Trial(1, 0, weight=3.0), Trial(2, 0, weight=1.0)], np.array([[1.0, 5.0], [2.0, 1.0]]))
    np.testing.assert_allclose(state.means(), [2.0, 1.75])
    assert state.best(1).tolist() == [1]
    assert behind(state)[1] == 0 < behind(state)[0]


def spent(state: ClassifierState) -> int:
    return int((~np.isnan(state.errors)).sum())


def test_easy_races_are_short() -> None:
    rng = np.random.default_rng(2)
    means = np.array([0.0] + [20.0] * 9)
    found = [spent(play(Race(), means, rng)) for _ in range(50)]
    staged = 10 * 5 + 5 * 15
    assert max(found) <= staged / 2


def test_looser_races_are_shorter() -> None:
    means = np.linspace(0, 2, 10)
    found = [
        np.mean([spent(play(Race(confidence), means, np.random.default_rng(i))) for i in range(50)])
        for confidence in (0.99, 0.9, 0.5, 0.2)
    ]
    assert found == sorted(found, reverse=True)


def test_critical_value_of_two_classes_and_one_look_is_students() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    # a single look after n trials: (mean difference) / standard error has Student's distribution, one-sided
    expected = scipy_stats.t(9).ppf(1 - 0.9 * 0.1)
    assert critical_value(0.9, 2, 10, (1.0,) * 10) == pytest.approx(expected, rel=0.05)


def test_critical_value_grows_with_classes_looks_and_confidence() -> None:
    ten = (1.0,) * 10
    base = critical_value(0.9, 5, 3, ten)
    assert critical_value(0.9, 20, 3, ten) > base
    assert critical_value(0.9, 5, 3, ten * 4) > base
    assert critical_value(0.95, 5, 3, ten) > base
    assert critical_value(0.9, 1, 3, ten) == np.inf
    assert critical_value(0.9, 5, 3, (3.0,) * 10) == pytest.approx(base)  # a common factor changes nothing


def board_of(errors: np.ndarray) -> ClassifierState:
    state = ClassifierState.empty(len(errors))
    state.add([Trial(t, 0) for t in range(errors.shape[1])], errors)
    return state


def test_noise_variance_is_that_of_the_two_way_layout() -> None:
    rng = np.random.default_rng(5)
    found = [
        noise_variance(board_of(rng.normal(size=(6, 8)) + 10 * rng.normal(size=8) + np.arange(6)[:, None]))
        for _ in range(2000)
    ]
    assert np.mean(found) == pytest.approx(1, abs=0.02)


def test_a_class_that_was_dropped_counts_in_the_variance() -> None:
    state = board_of(np.random.default_rng(6).normal(size=(5, 4)))
    alone = noise_variance(state)
    state.keep(np.array([0, 1, 2]))
    state.add([Trial(9, 0)], np.zeros((3, 1)))
    assert noise_variance(state) > 0
    assert noise_variance(state) != alone


def test_special_errors() -> None:
    equal = behind(board_of(np.array([[1.0, 2.0, 3.0]] * 2)))
    assert (equal == 0).all()
    sure = behind(board_of(np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])))
    assert sure.tolist() == [0, np.inf]
    broken = behind(board_of(np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0], [1.5, 2.0, 3.5]])))
    assert broken[1] == np.inf
    assert np.isfinite(broken[[0, 2]]).all()


def test_antithetic_trials_come_in_mirrored_pairs() -> None:
    state = ClassifierState.empty(2)
    seen: list[Trial] = []
    for trials in Race(max_trials=8, first=4, antithetic=True).rounds(state, TimestepSampler("even", 1000)):
        seen += trials
        state.add(trials, np.zeros((2, len(trials))))
    assert len(seen) == 8
    assert all(a._replace(sign=-1) == b for a, b in zip(seen[::2], seen[1::2], strict=True))


def test_policies_as_text() -> None:
    assert parse_policy("stages(trials=(5, 20), keep=(5, 1))") == Stages()
    assert parse_policy("race(confidence=0.9)") == Race(0.9)
    assert parse_policy("exhaustive(7)") == Exhaustive(7)
    assert parse_policy("imagenet-1k") == PAPER["imagenet-1k"] == Stages((5, 20, 100), (50, 10, 1))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("rase()", "Did you mean 'race'"),
        ("stages(trials=(5,), keep=(5, 1))", "trials and keep must have the same length"),
        ("stages(trials=(5, 5), keep=(5, 1))", "cumulative and increasing"),
        ("stages(trials=(5, 20), keep=(1, 5))", "not increasing"),
        ("exhaustive(0)", "trials must be an int of at least 1, got 0"),
        ("race(confidence=1)", "between 0 and 1"),
        ("race(max_trials=2)", "first <= max_trials"),
        ("race(confidence='high')", "between 0 and 1, got 'high'"),
        ("race(first=2.5)", "ints with 2 <= first"),
        ("race(antithetic=2)", "True or False"),
        ("stages(trials=5, keep=1)", "trials must be a list of ints, one per stage, got 5"),
        ("stages(trials=(5, 20), keep=(5.0, 1))", "keep must be a list of ints"),
        ("race(speed=2)", "unknown race parameter 'speed'. Available: confidence, max_trials"),
    ],
)
def test_bad_policies(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_policy(text)

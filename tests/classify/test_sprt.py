"""The sequential probability ratio test among many classes."""

import numpy as np
import pytest

from bigain.classify.policies import parse_policy
from bigain.classify.sprt import SPRT
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler, Trial
from bigain.profile import TimestepProfile

PROFILE = TimestepProfile(tuple(range(100, 700, 50)), tuple(np.geomspace(0.5, 2, 12)), scale=1.0)


def play(policy: SPRT, gap: float, classes: int, rng: np.random.Generator) -> ClassifierState:
    """Class 0 is true. The sampler's scale is that of the likelihood of these normal errors."""
    # trial r: gap / w_r, noise such that gap_r / noise_r² = scale · w_r with scale 1
    state = ClassifierState.empty(classes)
    for trials in policy.rounds(state, TimestepSampler(PROFILE, 1000, 0, 1.0)):
        weights = np.array([trial.weight for trial in trials])
        noise = np.sqrt(gap / weights)
        errors = gap + noise * rng.normal(size=(classes, len(trials))) + 5 * rng.normal(size=len(trials))
        errors[0] -= gap
        state.add(trials, errors[state.alive])
    return state


@pytest.mark.parametrize(("odds", "classes"), [(10.0, 2), (40.0, 2), (40.0, 5)])
def test_the_true_class_is_dropped_no_more_often_than_promised(odds: float, classes: int) -> None:
    rng = np.random.default_rng(0)
    runs = 1500
    lost = sum(0 not in play(SPRT(odds), 0.3, classes, rng).alive for _ in range(runs))
    assert 0 < lost / runs <= (classes - 1) / odds


def spent(state: ClassifierState) -> int:
    return int((~np.isnan(state.errors)).sum())


def test_higher_odds_take_longer_and_clear_images_are_short() -> None:
    def mean(odds: float, gap: float) -> float:
        return float(np.mean([spent(play(SPRT(odds), gap, 6, np.random.default_rng(i))) for i in range(60)]))

    assert mean(2, 0.5) < mean(10, 0.5) < mean(100, 0.5)
    assert mean(10, 8.0) < 6 * 2 < mean(10, 0.5)


def test_it_ends_with_the_profile_or_sooner_if_told() -> None:
    rng = np.random.default_rng(0)
    assert play(SPRT(1e9), 0.01, 3, rng).errors.shape == (3, 12)
    assert play(SPRT(1e9, max_trials=5), 0.01, 3, rng).errors.shape == (3, 5)
    assert play(SPRT(1e9, max_trials=5, first=4), 0.01, 3, rng).errors.shape == (3, 5)


def test_broken_classes_are_dropped_unless_all_are() -> None:
    state = ClassifierState.empty(3)
    rounds = SPRT(10).rounds(state, TimestepSampler(PROFILE, 1000, 0, 1.0))
    state.add(next(rounds), np.array([[np.nan], [1.0], [1.1]]))
    next(rounds)
    assert state.alive.tolist() == [1, 2]
    state.add([Trial(1, 0)], np.array([[np.inf], [np.inf]]))
    next(rounds)
    assert state.alive.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("sprt(odds=1)", "odds must be a number above 1, got 1"),
        ("sprt(odds='high')", "odds must be a number above 1, got 'high'"),
        ("sprt(first=0)", "ints with 1 <= first <= max_trials, got 0 and None"),
        ("sprt(max_trials=2, first=3)", "got 3 and 2"),
        ("sprt(speed=2)", "unknown sprt parameter 'speed'. Available: odds, max_trials, first"),
    ],
)
def test_bad_policies(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_policy(text)


def test_it_needs_a_scale() -> None:
    with pytest.raises(ValueError, match="sprt needs timesteps with fitted weights"):
        next(SPRT().rounds(ClassifierState.empty(2), TimestepSampler("even", 1000)))

"""Stochastic curtailment: classes are dropped that will hardly overtake the leader any more."""

import numpy as np
import pytest
from scipy.stats import norm

from bigain.classify.curtail import Curtail, to_come
from bigain.classify.decision import ranking
from bigain.classify.policies import parse_policy
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler, Trial
from bigain.profile import TimestepProfile

WEIGHTS, SPREADS = np.geomspace(0.5, 2, 12), np.geomspace(3, 0.3, 12)
PROFILE = TimestepProfile(tuple(range(100, 700, 50)), tuple(WEIGHTS), tuple(SPREADS))
SAMPLER = TimestepSampler(PROFILE, 1000)


def play(policy: Curtail, known: np.ndarray) -> ClassifierState:
    """What the policy does with known errors: (K, 12)."""
    state = ClassifierState.empty(len(known))
    for trials in policy.rounds(state, SAMPLER):
        columns = [PROFILE.timesteps.index(trial.t) for trial in trials]
        state.add(trials, known[np.ix_(state.alive, columns)])
    return state


def errors(rng: np.random.Generator, means: list[float]) -> np.ndarray:
    """Errors whose paired differences have the profile's spreads, around a part that all classes share."""
    noise = SPREADS / np.sqrt(2) * rng.normal(size=(len(means), 12))
    return np.array(means)[:, None] + noise + 9 * rng.normal(size=12)


@pytest.mark.parametrize("confidence", [0.6, 0.75, 0.9, 0.98])
def test_the_winner_of_all_trials_is_kept_as_often_as_promised(confidence: float) -> None:
    """Two equal classes and one look before the last trials: the worst case of the promise."""
    rng = np.random.default_rng(0)

    lost, looked = 0, 0
    weights = np.array(PROFILE.weights)
    trials = SAMPLER.sequence(12)
    limit = to_come(trials)[5] * norm.ppf(confidence)
    for _ in range(4000):
        difference = np.diff(errors(rng, [0.0, 0.0]), axis=0)[0] * weights
        behind = abs(difference[:6].sum())
        if behind > limit:  # the class behind would be dropped at this look
            looked += 1
            lost += np.sign(difference[:6].sum()) != np.sign(difference.sum())
    assert looked > 100
    assert lost / looked <= 1 - confidence


def spent(state: ClassifierState) -> int:
    return int((~np.isnan(state.errors)).sum())


def test_confidence_trades_trials_for_the_winner_of_all_trials() -> None:
    rng = np.random.default_rng(1)
    images = [errors(rng, [0.0, 0.2, 0.4, 0.8, 1.5, 3.0]) for _ in range(300)]
    full = np.array([(known @ np.array(PROFILE.weights)).argmin() for known in images])
    costs, same = [], []
    for confidence in (0.6, 0.75, 0.9, 0.99):
        states = [play(Curtail(confidence), known) for known in images]
        costs.append(np.mean([spent(state) for state in states]))
        same.append(np.mean([ranking(state)[0] == k for state, k in zip(states, full, strict=True)]))
    assert costs == sorted(costs)
    assert same == sorted(same)
    assert same[-1] > 0.97
    assert costs[0] < 6 * 12 / 2


def test_clear_images_are_short_and_one_class_is_left_at_the_end() -> None:
    rng = np.random.default_rng(2)
    clear = play(Curtail(0.85), errors(rng, [0.0] + [60.0] * 9))
    assert spent(clear) == 10
    state = play(Curtail(0.999), errors(rng, [0.0] * 4))
    assert len(state.alive) == 1
    assert state.alive[0] == np.argmin(np.where(np.isnan(state.errors).any(1), np.inf, state.errors @ state.weights))


def test_it_ends_with_the_profile_or_sooner_if_told() -> None:
    assert play(Curtail(0.6), np.zeros((3, 12))).errors.shape == (3, 12)
    assert play(Curtail(0.6, max_trials=5), np.zeros((3, 12))).errors.shape == (3, 5)
    np.testing.assert_allclose(to_come([Trial(1, 0, spread=3.0), Trial(2, 0, weight=2.0, spread=2.0)]), [4.0, 0.0])


def test_broken_classes_are_dropped_unless_all_are() -> None:
    state = ClassifierState.empty(3)
    rounds = Curtail().rounds(state, SAMPLER)
    state.add(next(rounds), np.array([[np.nan], [1.0], [1.1]]))
    next(rounds)
    assert state.alive.tolist() == [1, 2]
    state.add([Trial(1, 0)], np.array([[np.inf], [np.inf]]))
    next(rounds)
    assert state.alive.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("curtail(confidence=0.4)", "confidence must be a probability from 0.5 to below 1, got 0.4"),
        ("curtail(confidence='high')", "confidence must be a probability from 0.5 to below 1, got 'high'"),
        ("curtail(max_trials=0)", "max_trials must be an int of at least 1, got 0"),
        ("curtail(speed=2)", "unknown curtail parameter 'speed'. Available: confidence, max_trials"),
    ],
)
def test_bad_policies(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_policy(text)


def test_it_needs_spreads() -> None:
    for timesteps in ("even", TimestepProfile((5, 6), (1.0, 1.0))):
        with pytest.raises(ValueError, match="curtail needs fitted timesteps"):
            next(Curtail().rounds(ClassifierState.empty(2), TimestepSampler(timesteps, 1000)))

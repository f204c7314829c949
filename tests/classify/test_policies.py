import numpy as np
import pytest

from bigain.classify.policies import PAPER, Board, Exhaustive, Race, Stages, evidence, numbered, parse_policy
from bigain.classify.trials import Trial


def play(policy: object, means: np.ndarray, rng: np.random.Generator, shared: float = 3.0) -> Board:
    """Run a policy on simulated errors: a part that all classes share, and independent normal parts."""
    board = Board.empty(len(means), int(rng.integers(2**62)))
    for trials in policy.rounds(board, 1000):
        noise = rng.normal(size=(len(means), len(trials))) + shared * rng.normal(size=len(trials))
        board.add(trials, (means[:, None] + noise)[board.alive])
    return board


def test_a_race_keeps_its_promise() -> None:
    rng = np.random.default_rng(0)
    means = np.array([0.0, 0.3, 0.3, 0.6, 1.0, 1.5])
    lost = 0
    for _ in range(2000):
        board = play(Race(confidence=0.9, max_trials=30), means, rng)
        lost += 0 not in board.alive
    assert lost / 2000 <= 0.1


def test_a_race_between_equals_drops_the_first_rarely() -> None:
    rng = np.random.default_rng(1)
    lost = sum(0 not in play(Race(confidence=0.9, max_trials=30), np.zeros(2), rng).alive for _ in range(2000))
    assert lost / 2000 <= 0.1


def test_easy_races_are_short() -> None:
    rng = np.random.default_rng(2)
    means = np.array([0.0] + [20.0] * 9)
    spent = [int((~np.isnan(play(Race(max_trials=20), means, rng).errors)).sum()) for _ in range(50)]
    staged = 10 * 5 + 5 * 15
    assert max(spent) <= staged
    assert np.mean(spent) < staged / 2


def test_evidence_is_a_martingale_at_no_difference() -> None:
    rng = np.random.default_rng(3)
    differences = rng.normal(size=(200_000, 6))
    both = np.logaddexp(evidence(differences, 1), evidence(-differences, 1))  # one of the two is minus infinity
    assert np.exp(both).mean() == pytest.approx(1, abs=0.1)


def test_evidence_does_not_depend_on_scale_and_points_one_way() -> None:
    rows = np.random.default_rng(4).normal(1, 1, size=(5, 12))
    np.testing.assert_allclose(evidence(rows), evidence(1e-6 * rows))
    assert (evidence(-np.abs(rows)) == -np.inf).all()


def test_evidence_of_special_rows() -> None:
    rows = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [1.0, np.nan, 2.0]])
    found = evidence(rows)
    assert found[0] == -np.inf
    assert found[1] > 0
    assert found[2] == np.inf


def test_antithetic_trials_come_in_mirrored_pairs() -> None:
    board = Board.empty(2)
    seen: list[Trial] = []
    for trials in Race(max_trials=8, first=4, antithetic=True).rounds(board, 1000):
        seen += trials
        board.add(trials, np.zeros((2, len(trials))))
    assert len(seen) == 8
    assert all(a._replace(sign=-1) == b for a, b in zip(seen[::2], seen[1::2], strict=True))


def test_steps_can_be_given_and_repeated() -> None:
    assert numbered([5, 7, 5]) == [Trial(5, 0), Trial(7, 0), Trial(5, 1)]
    board = Board.empty(3)
    first = next(Stages((2, 4), (2, 1), steps=(9, 8, 9, 7)).rounds(board, 1000))
    assert first == [Trial(9, 0), Trial(8, 0)]


def test_policies_as_text() -> None:
    assert parse_policy("stages(trials=(5, 20), keep=(5, 1))") == Stages()
    assert parse_policy("race(confidence=0.9)") == Race(0.9)
    assert parse_policy("exhaustive(7)") == Exhaustive(7)
    assert parse_policy("imagenet-1k") == PAPER["imagenet-1k"] == Stages((5, 20, 100), (50, 10, 1))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("rase()", "did you mean 'race'"),
        ("stages(trials=(5,), keep=(5, 1))", "as many keep counts"),
        ("stages(trials=(5, 5), keep=(5, 1))", "must rise"),
        ("stages(trials=(5, 20), keep=(1, 5))", "must not rise"),
        ("stages(trials=(5, 20), keep=(5, 1), steps=(1, 2))", "20 trials need"),
        ("exhaustive(0)", "from 1"),
        ("race(confidence=1)", "between 0 and 1"),
        ("race(max_trials=2)", "first <= max_trials"),
        ("race(speed=2)", "race takes confidence"),
    ],
)
def test_bad_policies(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_policy(text)

"""Stages of the trajectory from closed forms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bigain.denoisers.schedule import Schedule
from bigain.pruning.trajectory import Stage, Stages, cut, scores, share_out, stage_sparsities

LINEAR = Schedule()
FLOW = Schedule("flow", prediction_type="flow")


def test_the_speed_of_the_linear_schedule():
    """sqrt(alpha-bar) is nearly exp(-a t^2 / 2) with a = 1e-5, whose slope is largest at 1 / sqrt(a) = 316."""
    found = scores(LINEAR, 0)
    assert abs(int(found.argmax()) - 316) < 8
    t = torch.tensor([150, 500])
    slope = t * torch.exp(-1e-5 * t**2 / 2)
    ratio = (found[t] + 0.005) / slope  # the smallest slope became 0
    assert float(ratio[0] / ratio[1]) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    "schedule", [LINEAR, Schedule("scaled_linear", 0.00085, 0.012), Schedule("squaredcos_cap_v2"), FLOW]
)
def test_scores_are_finite_and_scaled(schedule):
    found = scores(schedule, 0.1)
    assert (float(found.min()), float(found.max())) == (0, 1)
    assert torch.isfinite(found).all()


def test_slow_fast_slow():
    stages = cut(scores(LINEAR, 0.1), 0.5).stages
    assert [stage.first for stage in stages] == [0, 83, 603]
    assert stages[1].score > 0.7 > 0.5 > max(stages[0].score, stages[2].score)
    assert stages[-1].last == 1000


def test_more_weight_on_the_snr_spares_low_noise():
    low, high = (stage_sparsities(cut(scores(LINEAR, weight), 0.5), 0.3, 0.9) for weight in (0, 0.3))
    assert high[0] < low[0]


def test_a_share_of_zero_is_one_stage():
    assert len(cut(scores(LINEAR, 0.1), 0).stages) == 1


def test_the_stage_of_a_timestep():
    stages = Stages((Stage(0, 10, 0.1), Stage(10, 30, 0.9), Stage(30, 40, 0.2)))
    assert [stages.number(t) for t in (0, 9, 9.99, 10, 29.5, 30, 39, 1000)] == [0, 0, 0, 1, 1, 2, 2, 2]
    assert stages.shares == (0.25, 0.5, 0.25)


def test_sparsity_is_in_proportion_to_one_minus_the_score():
    stages = Stages((Stage(0, 10, 0.1), Stage(10, 30, 0.9), Stage(30, 40, 0.2)))
    found = stage_sparsities(stages, 0.2, 0.9)
    assert found[0] / found[1] == pytest.approx(9)
    assert found[2] / found[1] == pytest.approx(8)
    assert sum(w * x for w, x in zip(stages.shares, found, strict=True)) == pytest.approx(0.2)


@given(st.floats(0, 0.89), st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)), min_size=1, max_size=4))
def test_the_total_is_as_asked_whatever_is_full(total, pairs):
    weights = [weight / sum(w for w, _ in pairs) for weight, _ in pairs]
    found = share_out(total, [wanted for _, wanted in pairs], weights, 0.9)
    assert sum(w * x for w, x in zip(weights, found, strict=True)) == pytest.approx(total, abs=1e-9)
    assert all(0 <= x <= 0.9 for x in found)
    free = [x / wanted for x, (_, wanted) in zip(found, pairs, strict=True) if x < 0.9 - 1e-9]
    assert max(free, default=0) == pytest.approx(min(free, default=0))

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bigain.classify.trials import (
    TimestepSampler,
    Trial,
    check_timesteps,
    draw_noise,
    even_timesteps,
    fingerprint,
    numbered,
    staged_timesteps,
)
from bigain.profile import TimestepProfile


def test_the_papers_two_stages() -> None:
    first, second = staged_timesteps(1000, [5, 20])
    assert first == [125, 325, 525, 725, 925]
    assert second == [t for t in range(25, 1000, 50) if t not in first]


def test_three_stages_do_not_nest() -> None:
    stages = staged_timesteps(1000, [5, 20, 100])
    assert [len(steps) for steps in stages] == [5, 20, 75]
    assert stages[0] == [105, 305, 505, 705, 905]
    assert sorted(t for steps in stages for t in steps) == list(range(5, 1000, 10))


def reference_steps(timesteps: int, count: int) -> list[int]:
    """The reference's rule, counted out: a whole stride, begun in the middle of the first interval."""
    stride = timesteps // count
    found, t = [], stride // 2
    while t < timesteps and len(found) < count:
        found.append(t)
        t += stride
    return found


def reference_stages(timesteps: int, stages: list[int]) -> list[list[int]]:
    """The reference's stages, by position: every stride-th of all steps from the middle of the first stride."""
    steps = reference_steps(timesteps, max(stages))
    found: list[list[int]] = []
    for count in stages:
        stride = len(steps) // count
        picked = [t for place, t in enumerate(steps) if place >= stride // 2 and (place - stride // 2) % stride == 0]
        done = {t for stage in found for t in stage}
        found.append([t for t in picked[:count] if t not in done])
    return found


@given(st.integers(1, 1200).flatmap(lambda most: st.tuples(st.integers(1, most), st.just(most))))
def test_even_steps_are_the_references(numbers: tuple[int, int]) -> None:
    count, timesteps = numbers
    steps = even_timesteps(timesteps, count)
    assert steps == reference_steps(timesteps, count)
    assert len(set(steps)) == count
    assert all(0 <= t < timesteps for t in steps)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=4, unique=True), st.integers(400, 1100))
def test_stages_are_the_references(stages: list[int], timesteps: int) -> None:
    assert staged_timesteps(timesteps, sorted(stages)) == reference_stages(timesteps, sorted(stages))


@pytest.mark.parametrize(
    ("count", "steps"), [(3, [166, 499, 832]), (7, [71, 213, 355, 497, 639, 781, 923]), (600, list(range(600)))]
)
def test_counts_that_do_not_divide(count: int, steps: list[int]) -> None:
    assert even_timesteps(1000, count) == steps


@pytest.mark.parametrize("most", [0, 1001])
def test_too_many_trials(most: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 1000"):
        even_timesteps(1000, most)


def test_noise_depends_on_seed_image_and_trial_only() -> None:
    base = draw_noise(0, 7, Trial(125, 0), (2, 3))
    assert torch.equal(base, draw_noise(0, 7, Trial(125, 0), (2, 3)))
    assert torch.equal(-base, draw_noise(0, 7, Trial(125, 0, -1), (2, 3)))
    others = [(1, 7, Trial(125, 0)), (0, 8, Trial(125, 0)), (0, 7, Trial(325, 0)), (0, 7, Trial(125, 1))]
    assert not any(torch.equal(base, draw_noise(*other, (2, 3))) for other in others)


def test_fingerprint_depends_on_pixels_only() -> None:
    image = torch.rand(1, 4, 4)
    assert fingerprint(image) == fingerprint(image.clone()) == fingerprint(image.double())
    assert fingerprint(image) != fingerprint(image + 1e-6)


def test_a_step_that_comes_again_gets_another_noise() -> None:
    assert numbered([5, 7, 5]) == [Trial(5, 0), Trial(7, 0), Trial(5, 1)]


def test_given_steps_are_used_in_their_order_and_again() -> None:
    sampler = TimestepSampler(check_timesteps((9, 8, 7), 1000), 1000)
    assert sampler.stages((2, 4)) == [[Trial(9, 0), Trial(8, 0)], [Trial(7, 0), Trial(9, 1)]]
    assert sampler.sequence(3) == [Trial(9, 0), Trial(8, 0), Trial(7, 0)]


def test_even_steps_of_a_sequence_are_shuffled_by_the_key_only() -> None:
    first, again, other = (TimestepSampler("even", 1000, key).sequence(20) for key in (1, 1, 2))
    assert first == again != other
    assert sorted(trial.t for trial in first) == even_timesteps(1000, 20)
    assert first != TimestepSampler("even", 1000, 1).stages([20])[0]


@pytest.mark.parametrize(
    "steps",
    [[25, 75], (25.0, 75.0), np.array([25, 75]), torch.tensor([25, 75]), range(25, 76, 50), np.array([25.0, 75])],
)
def test_steps_of_all_kinds(steps: object) -> None:
    found = check_timesteps(steps, 1000)
    assert found == TimestepProfile((25, 75), (1.0, 1.0))
    assert all(type(t) is int for t in found.timesteps)


def test_trials_of_a_profile_carry_its_weights() -> None:
    sampler = TimestepSampler(TimestepProfile((9, 8), (1.0, 3.0), (2.0, 1.0)), 1000)
    assert sampler.trials == 2
    assert [(trial.t, trial.number, trial.weight) for trial in sampler.sequence(3)] == [
        (9, 0, 0.5), (8, 0, 1.5), (9, 1, 0.5),
    ]  # fmt: skip
    assert sampler.stages((1, 2))[1][0].spread == 1.0
    assert sampler.fitted


def test_weights_do_not_change_the_noise() -> None:
    plain, heavy = Trial(9, 1), Trial(9, 1, weight=3.0, spread=2.0, final=True)
    assert torch.equal(draw_noise(0, 5, plain, (2, 2)), draw_noise(0, 5, heavy, (2, 2)))
    assert plain.key == heavy.key


def test_a_file_of_a_profile_is_read(tmp_path: Path) -> None:
    profile = TimestepProfile((9, 8), (1.0, 3.0), scale=2.0)
    profile.save(tmp_path / "mine.json")
    assert check_timesteps(tmp_path / "mine.json", 1000) == check_timesteps(f"{tmp_path}/mine.json", 1000) == profile
    with pytest.raises(ValueError, match="from 0 to 8, got 9"):
        check_timesteps(profile, 9)


def test_random_steps_are_uniform_and_depend_on_the_key_only() -> None:
    decks = [TimestepSampler("random", 1000, key) for key in range(200)]
    steps = [trial.t for sampler in decks for stage in sampler.stages((5, 20)) for trial in stage]
    assert len(steps) == 4000
    assert min(steps) < 10
    assert max(steps) > 989
    counts = torch.histc(torch.tensor(steps, dtype=torch.float), 10, 0, 1000)
    assert ((counts - 400).abs() < 100).all()  # 5 standard deviations
    assert TimestepSampler("random", 1000, 3).stages((5, 20)) == TimestepSampler("random", 1000, 3).stages((5, 20))


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ("evn", '"fitted", a TimestepProfile, its JSON file or a sequence'),
        ((), "sequence of ints"),
        ((5, 1000), "from 0 to 999, got 1000"),
        ((5, 1.5), r"got 1\.5"),
        ((5, "25"), "from 0 to 999, got '25'"),
        ((5, None), "from 0 to 999, got None"),
        ((5, True), "from 0 to 999, got True"),
        (5, "sequence of ints, got 5"),
        ({5, 6}, "sequence of ints, got"),
    ],
)
def test_bad_steps(steps: object, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        check_timesteps(steps, 1000)

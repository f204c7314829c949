import itertools

import pytest
import torch

from bigain.classify.trials import Trial, draw_noise, even_steps, fingerprint, staged_steps


def test_the_papers_two_stages() -> None:
    first, second = staged_steps(1000, [5, 20])
    assert first == [125, 325, 525, 725, 925]
    assert second == [t for t in range(25, 1000, 50) if t not in first]


def test_three_stages_do_not_nest() -> None:
    stages = staged_steps(1000, [5, 20, 100])
    assert [len(steps) for steps in stages] == [5, 20, 75]
    assert stages[0] == [105, 305, 505, 705, 905]
    assert sorted(t for steps in stages for t in steps) == list(range(5, 1000, 10))


@pytest.mark.parametrize("most", [1, 3, 7, 20, 100, 1000])
def test_even_steps_are_even(most: int) -> None:
    steps = even_steps(1000, most)
    assert len(steps) == most
    assert 0 <= min(steps) <= max(steps) < 1000
    assert len({b - a for a, b in itertools.pairwise(steps)}) <= 1


@pytest.mark.parametrize("most", [0, 1001])
def test_too_many_trials(most: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 1000"):
        even_steps(1000, most)


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

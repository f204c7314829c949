import numpy as np
import pytest
import torch

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.informative import measure, rival_margins
from bigain.denoisers.base import Condition
from helpers.toys import PointDenoiser, points


def simulated(gaps: np.ndarray, noise: np.ndarray, n: int = 2000, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Errors of independent trials: wrong classes are behind by gaps[r], with noise[r]."""
    rng = np.random.default_rng(0)
    truth = rng.integers(classes, size=n)
    errors = gaps * np.ones((n, classes, 1)) + noise * rng.normal(size=(n, classes, len(gaps)))
    errors[np.arange(n), truth] -= gaps
    return errors, truth


def test_the_clearest_step_comes_first() -> None:
    errors, truth = simulated(np.array([1.0, 1.0, 1.0]), np.array([3.0, 0.5, 1.0]))
    found = measure(errors, truth, (10, 20, 30))
    assert found.timesteps == (20, 30, 10)
    assert found.ratios[0] > found.ratios[1] > found.ratios[2] > 0


def test_a_step_that_says_the_same_comes_later() -> None:
    errors, truth = simulated(np.array([1.0, 1.0]), np.array([1.0, 1.2]))
    copied = np.concatenate([errors, errors[..., :1]], 2)  # the third repeats the first
    found = measure(copied, truth, (10, 20, 30))
    assert found.timesteps[:2] in ((10, 20), (30, 20))
    assert found.losses[0] > found.losses[1]


def test_a_step_that_errs_where_others_err_comes_last() -> None:
    """The first two steps are loud and fail on the same third of the images, which only the last one tells."""
    errors, truth = simulated(np.array([9.0, 9.0, 1.0]), np.array([0.5, 0.5, 0.5]), n=900)
    hard = np.arange(900) % 3 == 0
    errors[hard, :, :2] = np.random.default_rng(1).normal(scale=0.1, size=(300, 4, 1))
    assert 30 in measure(errors, truth, (10, 20, 30)).timesteps[:2]


def test_the_loss_is_the_cross_entropy_at_the_best_temperature() -> None:
    errors, truth = simulated(np.array([1.0]), np.array([1.0]), n=300, classes=3)
    logits = -np.linspace(0.01, 5, 2000)[:, None, None] * errors[..., 0]
    chances = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    losses = -np.log(chances[:, np.arange(300), truth]).mean(1)
    assert measure(errors, truth, (10,)).losses[0] == pytest.approx(losses.min(), abs=1e-4)


def test_errors_that_tell_nothing() -> None:
    assert measure(np.ones((4, 3, 2)), np.array([0, 1, 2, 0]), (10, 20)).losses[0] == pytest.approx(np.log(3))


def test_margins_are_of_the_nearest_rivals() -> None:
    errors = np.array([[[5.0], [1.0], [3.0], [2.0], [9.0]]])
    assert rival_margins(errors, np.array([1]))[0, :, 0].tolist() == [1.0, 2.0, 4.0]


def test_the_classifier_uses_what_it_measured() -> None:
    found = points(4)
    classifier = DiffusionClassifier(Blind(found), range(4), "exhaustive(2)")
    images, labels = uneven(found, np.random.default_rng(0))
    profile = classifier.choose_timesteps(images, labels, candidates=5)
    assert profile.timesteps[0] in (700, 900)
    assert sorted(profile.timesteps) == [100, 300, 500, 700, 900]
    assert classifier(found[:1])[0].timesteps == profile.timesteps[:2]


class Blind(PointDenoiser):
    """Cannot tell the classes apart below t = 600."""

    def output(self, noisy: torch.Tensor, t: torch.Tensor, condition: Condition) -> torch.Tensor:
        seen = condition.values["points"] * (t >= 600).view(-1, 1, 1, 1)
        return super().output(noisy, t, Condition({"points": seen}))


def uneven(found: torch.Tensor, rng: np.random.Generator, n: int = 40) -> tuple[torch.Tensor, list[int]]:
    """Images near their points, every fourth with the label of another."""
    truth = rng.integers(len(found), size=n)
    noise = torch.from_numpy(rng.normal(size=(n, *found.shape[1:]))).float()
    labels = [int(k + 1) % len(found) if i % 4 == 0 else int(k) for i, k in enumerate(truth)]
    return (found[truth] + 0.5 * noise).clamp(-1, 1), labels


def test_images_that_cannot_tell_leave_the_steps_alone() -> None:
    found = points(4)
    classifier = DiffusionClassifier(PointDenoiser(found), range(4), "exhaustive(2)", timesteps=(7, 8))
    with pytest.warns(
        UserWarning, match="the timesteps are unchanged: all of them separate the classes of these images equally well"
    ):
        classifier.choose_timesteps(found.repeat(4, 1, 1, 1), [0, 1, 2, 3] * 4, candidates=5)
    assert classifier.timesteps == (7, 8)


def test_bad_requests() -> None:
    classifier = DiffusionClassifier(PointDenoiser(points(3)), range(3))
    for request in (classifier.calibrate, classifier.choose_timesteps):
        with pytest.raises(ValueError, match="at least 10 labelled images are needed, better 100, got 3"):
            request(points(3), [0, 1, 2])
        with pytest.raises(ValueError, match="labels must name at least two classes, got 1 for all 10 images"):
            request(points(10), [1] * 10)
    with pytest.raises(ValueError, match="one element per image, got 1 for 2 images"):
        classifier.choose_timesteps(points(2), [0])
    with pytest.raises(ValueError, match="unknown class 7"):
        classifier.calibrate(points(2), [0, 7])
    with pytest.raises(ValueError, match=r"call classifier\.choose_timesteps"):
        DiffusionClassifier(PointDenoiser(points(3)), range(3), timesteps="informative")

"""Timesteps with weights, fitted to images with and without labels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize
from scipy.special import log_softmax

from bigain.classify import fitting as fitting_of_many
from bigain.classify import weights as fitting
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.curtail import Curtail
from bigain.classify.fitting import Candidates, nearest_errors, own_labels
from bigain.classify.trials import even_timesteps
from bigain.classify.weights import fit_profile, fit_weights, make_table, rival_spreads, select, spread_out
from bigain.denoisers.base import Condition
from helpers.toys import PointDenoiser, points


def simulated(gaps: list[float], noise: list[float], n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Errors of independent trials: wrong classes are behind by gaps[r], with noise[r], around a shared part."""
    rng = np.random.default_rng(seed)
    classes, size = 4, (n, 4, len(gaps))
    truth = rng.integers(classes, size=n)
    errors = np.array(gaps) + np.array(noise) * rng.normal(size=size) + 9 * rng.normal(size=(n, 1, len(gaps)))
    errors[np.arange(n), truth] -= np.array(gaps)
    return errors, truth


def accuracy(errors: np.ndarray, truth: np.ndarray, fit: fitting.Fit) -> float:
    return float(((errors[..., list(fit.columns)] @ fit.weights).argmin(1) == truth).mean())


def test_weights_are_those_of_the_likelihood() -> None:
    """With independent normal noise the log-odds of two classes are Σ gap · difference / noise²."""
    gaps, noise = [1.0, 1.0, 0.2, 2.0], [2.0, 1.0, 1.0, 4.0]
    errors, truth = simulated(gaps, noise, n=20_000)
    table = make_table(errors, truth)
    found = fit_weights(table, 1e-9)[0] / table.spreads
    np.testing.assert_allclose(found, np.array(gaps) / np.square(noise), rtol=0.1, atol=0.02)


def test_weights_are_the_optimum_of_a_general_solver() -> None:
    errors, truth = simulated([1.0, 0.5, 0.0], [1.0, 1.0, 1.0], n=80)
    table, strength = make_table(errors, truth), 3.0

    def loss(w: np.ndarray) -> float:
        away = w - w.mean()
        return float(-log_softmax(-(table.errors @ w), 1)[:, 0].mean() + strength / 80 * away @ away)

    found, value = fit_weights(table, strength)
    exact = {"xatol": 1e-7, "fatol": 1e-12}
    other = minimize(loss, np.ones(3), method="Nelder-Mead", bounds=[(0, None)] * 3, options=exact)
    np.testing.assert_allclose(found, other.x, atol=1e-3)
    away = found - found.mean()
    assert value + strength / 80 * away @ away == pytest.approx(other.fun, abs=1e-6)
    assert check_grad(loss, lambda w: np.zeros(3), found) < 0.01  # the slope vanishes where no bound holds it


def test_steps_and_weights_are_chosen_together() -> None:
    errors, truth = simulated([1.0, 1.0, 1.0, 0.0], [3.0, 0.5, 1.0, 1.0])
    copied = np.concatenate([errors, errors[..., 1:2]], 2)  # the fifth repeats the second
    chosen, weights = select(make_table(copied, truth), 3, 0.5)
    assert chosen[0] in (1, 4)
    assert chosen[1] == 2  # not the copy
    assert (weights >= 0).all()


def test_a_fit_beats_equal_weights_on_other_images() -> None:
    gaps, noise = [1.0, 0.1, 3.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.8, 8.0, 40.0, 1.0, 9.0, 30.0, 5.0, 1.0]
    train, test = simulated(gaps, noise, n=300), simulated(gaps, noise, n=2000, seed=1)
    found = fit_profile(*train, 4)
    assert not found.note
    assert {0, 3} <= set(found.columns)
    equal = fitting.equal_fit(make_table(*train), spread_out(8, 4), "")
    assert accuracy(*test, found) > accuracy(*test, equal) + 0.1


def worse_than_equal(seed: int, n: int) -> float:
    """By how much a fit to n images lowers the accuracy where equal weights are right."""
    gaps, noise = [1.0] * 6, [1.5] * 6
    train, test = simulated(gaps, noise, n=n, seed=seed), simulated(gaps, noise, n=2000, seed=seed + 1)
    found = fit_profile(*train, 6)
    assert (n < fitting.FEWEST) == ("too few" in found.note)
    equal = fitting.equal_fit(make_table(*train), spread_out(6, 6), "")
    return accuracy(*test, equal) - accuracy(*test, found)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(10, fitting.FEWEST - 1))
def test_few_images_never_do_harm(seed: int, n: int) -> None:
    assert worse_than_equal(seed, n) == 0


def test_a_fit_that_learns_nothing_costs_little() -> None:
    """It rarely believes in weights, and then they are nearly right."""
    losses = [worse_than_equal(seed, fitting.FEWEST) for seed in range(15)]
    assert np.mean(losses) < 0.01
    assert np.mean(np.array(losses) == 0) > 0.7


def test_the_scale_is_as_sure_as_it_should_be() -> None:
    gaps, noise = [1.0, 0.5, 2.0, 0.2], [1.0, 1.0, 8.0, 3.0]
    (errors, truth), test = simulated(gaps, noise, n=120), simulated(gaps, noise, n=4000, seed=1)
    for fit in (fit_profile(errors, truth, 4), fit_profile(errors[:15], truth[:15], 4)):
        chances = np.exp(log_softmax(-(test[0][..., list(fit.columns)] @ fit.weights), 1))
        sure, right = chances.max(1), chances.argmax(1) == test[1]
        assert abs(sure.mean() - right.mean()) < 0.1


@pytest.mark.parametrize(("count", "trials"), [(20, 4), (20, 20), (7, 3), (1, 1)])
def test_even_columns_are_spread_out_from_the_start(count: int, trials: int) -> None:
    found = spread_out(count, trials)
    assert len(set(found)) == trials
    assert set(found) <= set(range(count))
    assert trials < 3 or abs(found[0] - found[1]) >= count / 4


class Blind(PointDenoiser):
    """Cannot tell the classes apart below t = 600."""

    def output(self, noisy: torch.Tensor, t: torch.Tensor, condition: Condition) -> torch.Tensor:
        seen = condition.values["points"] * (t >= 600).view(-1, 1, 1, 1)
        return super().output(noisy, t, Condition({"points": seen}))


def uneven(found: torch.Tensor, n: int = 40) -> tuple[torch.Tensor, list[int]]:
    """Images near their points, every fourth with the label of another."""
    rng = np.random.default_rng(0)
    truth = rng.integers(len(found), size=n)
    noise = torch.from_numpy(rng.normal(size=(n, *found.shape[1:]))).float()
    labels = [int(k + 1) % len(found) if i % 4 == 0 else int(k) for i, k in enumerate(truth)]
    return (found[truth] + 0.5 * noise).clamp(-1, 1), labels


def test_the_classifier_uses_what_it_fitted() -> None:
    found = points(4)
    classifier = DiffusionClassifier(Blind(found), range(4), "fast")
    assert not classifier.fitted
    assert str(classifier.policy).startswith("Race")
    images, labels = uneven(found, 120)
    profile = classifier.fit(images, labels, trials=2, candidates=5)
    assert (profile.images, profile.labelled, profile.classes) == (120, True, (0, 1, 2, 3))
    assert profile.note or profile.timesteps[0] in (700, 900)
    assert classifier.timesteps is profile
    assert isinstance(classifier.policy, Curtail)
    assert classifier.scale == profile.scale
    assert classifier(found[:1])[0].timesteps[0] == profile.timesteps[0]


def test_without_labels_the_classifier_labels_by_itself() -> None:
    found = points(4)
    classifier = DiffusionClassifier(PointDenoiser(found), range(4))
    images, _ = uneven(found, 30)
    profile = classifier.fit(images, trials=3, candidates=5)
    assert (profile.images, profile.labelled) == (30, False)
    assert [d.index for d in classifier(images)] == ((images[:, None] - found) ** 2).mean((2, 3, 4)).argmin(1).tolist()


@pytest.mark.parametrize("draws", [1, 2])
def test_of_many_classes_only_the_nearest_and_the_true_one_are_tried_at_all_candidates(draws: int) -> None:
    found = points(fitting_of_many.MANY + 6)
    classes = len(found)
    steps = even_timesteps(1000, 12)
    classifier = DiffusionClassifier(PointDenoiser(found), range(classes), f"exhaustive({12 * draws})",
                                     timesteps=steps * draws)  # fmt: skip
    images, truth = uneven(found, 6)
    whole = np.stack([decision.errors for decision in classifier(images)])
    candidates = Candidates(steps, draws)
    assert sorted(candidates.order) == list(range(12 * draws))
    assert [steps[i] for i in candidates.order[: candidates.first]] == [steps[2], steps[7]]
    errors, labels = nearest_errors(classifier, images, np.array(truth), candidates, None)
    assert errors.shape == (6, fitting_of_many.SHORTLIST, 12 * draws)
    for image, all_classes, near, label in zip(truth, whole, errors, labels, strict=True):
        np.testing.assert_allclose(near[label], all_classes[image], rtol=1e-5)  # far from what it shows, and yet there
        first = all_classes[:, [2, 7]].mean(1)
        chosen = {int(np.abs(all_classes - row).sum(1).argmin()) for row in near}
        assert len(chosen) == fitting_of_many.SHORTLIST
        assert chosen | {image} >= set(first.argsort()[: fitting_of_many.SHORTLIST - 1].tolist())


def test_a_fit_to_many_classes_tries_few_of_them_often() -> None:
    found = points(fitting_of_many.MANY + 6)
    classifier = DiffusionClassifier(PointDenoiser(found), range(len(found)), "fast")
    images, truth = uneven(found, 24)
    spent: list[int] = []
    profile = classifier.fit(images, truth, trials=4, candidates=10, progress=lambda d: spent.append(d.evaluations))
    assert profile.images == 24
    assert len(profile.spreads) == len(profile.timesteps)
    assert set(spent) == {2 * len(found) + 8 * fitting_of_many.SHORTLIST}
    assert classifier.fit(images[:12], trials=2, candidates=5).labelled is False


def test_spreads_are_those_of_differences_between_near_classes() -> None:
    rng = np.random.default_rng(0)
    noise = np.array([0.5, 2.0])
    errors = noise * rng.normal(size=(4000, 4, 2)) + 9 * rng.normal(size=(4000, 1, 2))
    np.testing.assert_allclose(rival_spreads(errors), noise * np.sqrt(2), rtol=0.03)
    pairs = [(a - b) ** 2 for image in errors[:50] for i, a in enumerate(image) for b in image[:i]]
    np.testing.assert_allclose(rival_spreads(errors[:50]), np.sqrt(np.mean(pairs, 0)))
    far = np.concatenate([errors, errors + 100], 1)  # classes that nobody confuses do not count
    np.testing.assert_allclose(rival_spreads(far), noise * np.sqrt(2), rtol=0.03)


def test_own_labels_are_decisions_that_no_single_step_dominates() -> None:
    errors, truth = simulated([1.0, 1.0, 3.0], [0.7, 0.7, 12.0], n=400)
    assert (own_labels(errors) == truth).mean() > (errors.mean(2).argmin(1) == truth).mean() + 0.1


def test_fitting_leaves_policy_and_timesteps_alone_if_it_fails() -> None:
    classifier = DiffusionClassifier(PointDenoiser(points(3)), range(3), "exhaustive(2)", timesteps=(7, 8))
    with pytest.raises(TypeError):
        classifier.fit([None] * 12)
    assert classifier.timesteps.timesteps == (7, 8)
    assert str(classifier.policy) == "Exhaustive(trials=2)"


def test_bad_requests() -> None:
    classifier = DiffusionClassifier(PointDenoiser(points(3)), range(3))
    for request in (classifier.calibrate, classifier.fit):
        with pytest.raises(ValueError, match="at least 10 labelled images are needed, better 100, got 3"):
            request(points(3), [0, 1, 2])
        with pytest.raises(ValueError, match="labels must name at least two classes, got 1 for all 10 images"):
            request(points(10), [1] * 10)
        with pytest.raises(ValueError, match="one element per image, got 1 for 2 images"):
            request(points(2), [0])
        with pytest.raises(ValueError, match="unknown class 7"):
            request(points(2), [0, 7])

"""Calibration does no harm where the images cannot tell a temperature."""

import numpy as np
import pytest

from bigain.classify.calibration import calibrate
from bigain.classify.classifier import DiffusionClassifier
from helpers.toys import PointDenoiser, points


def gaps_of(chances: float, n: int = 400, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Gaps of images whose labels are drawn with the probabilities at scale `chances`."""
    rng = np.random.default_rng(0)
    gaps = rng.exponential(size=(n, classes))
    gaps -= gaps.min(1, keepdims=True)
    weights = np.exp(-chances * gaps)
    weights /= weights.sum(1, keepdims=True)
    return gaps, np.array([rng.choice(classes, p=row) for row in weights])


def test_the_scale_that_made_the_labels_is_found() -> None:
    gaps, truth = gaps_of(2.0)
    found = calibrate(gaps, truth, 50.0)
    assert found.scale == pytest.approx(2.0, rel=0.2)
    assert found.ece_after < found.ece_before
    assert found.kept == ""


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda gaps: gaps.argmin(1), "all 30 images are classified correctly, which fits no temperature"),
        (lambda gaps: gaps.argmax(1), "none of 30 images is classified correctly; are the labels in the order"),
        (lambda gaps: np.where(np.arange(30) % 5, gaps.argmax(1), gaps.argmin(1)), "the fit on 30 images diverges"),
    ],
    ids=["all right", "all wrong", "worse than chance"],
)
def test_what_cannot_tell_the_scale_keeps_it(labels, words: str) -> None:
    gaps, _ = gaps_of(2.0, n=30)
    found = calibrate(gaps, labels(gaps), 50.0)
    assert found.scale == 50.0
    assert found.ece_after == found.ece_before
    assert words in found.kept


def test_the_classifier_warns_and_keeps_its_probabilities() -> None:
    found = points(4)
    classifier = DiffusionClassifier(PointDenoiser(found), range(4), "exhaustive(2)")
    before = classifier.scale
    with pytest.warns(UserWarning, match="the temperature is unchanged: all 12 images are classified correctly"):
        result = classifier.calibrate(found.repeat(3, 1, 1, 1), [0, 1, 2, 3] * 3)
    assert classifier.scale == result.scale == before

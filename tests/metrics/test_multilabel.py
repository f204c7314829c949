import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.classification import MultilabelAveragePrecision, MultilabelRankingAveragePrecision

from bigain.metrics.intervals import wilson
from bigain.metrics.multilabel import (
    class_precision,
    macro_precision,
    ranking_precision,
    score_ranking_precision,
    top1_precision,
)


def sample(seed: int, n: int = 60, k: int = 8, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Scores in (0, 1), as torchmetrics wants them, and labels with one or more an image."""
    rng = np.random.default_rng(seed)
    labels = rng.random((n, k)) < 0.3
    labels[np.arange(n), rng.integers(0, k, n)] = True
    scores = rng.random((n, k)).astype(np.float32)
    return (np.ceil(scores * 4) / 5 if ties else scores), labels


def slow_precision(order: list[int], right: set[int]) -> float:
    """Average precision of one ranking, item by item."""
    found, total = 0, 0.0
    for place, item in enumerate(order, 1):
        if item in right:
            found += 1
            total += found / place
    return total / len(right)


@given(st.integers(0, 10**6), st.booleans())
def test_label_ranking_precision_is_torchmetrics(seed: int, ties: bool) -> None:
    scores, labels = sample(seed, n=12, ties=ties)
    theirs = MultilabelRankingAveragePrecision(num_labels=8)(torch.tensor(scores), torch.tensor(labels))
    assert score_ranking_precision(scores, labels).mean() == pytest.approx(float(theirs), abs=1e-5)


@given(st.integers(0, 10**6))
def test_a_ranking_and_its_scores_agree_with_the_slow_way(seed: int) -> None:
    scores, labels = sample(seed, n=10)
    ranking = np.argsort(-scores, axis=1)
    slow = [slow_precision(list(row), set(np.flatnonzero(true))) for row, true in zip(ranking, labels, strict=True)]
    assert ranking_precision(ranking, labels) == pytest.approx(np.array(slow))
    assert score_ranking_precision(scores, labels) == pytest.approx(np.array(slow))


@pytest.mark.parametrize("ties", [False, True])
def test_class_precision_is_torchmetrics(ties: bool) -> None:
    scores, labels = sample(7, ties=ties)
    metric = MultilabelAveragePrecision(num_labels=8, average="none")
    theirs = metric(torch.tensor(scores), torch.tensor(labels).int())
    assert class_precision(scores, labels) == pytest.approx(theirs.numpy(), abs=1e-5)
    metric = MultilabelAveragePrecision(num_labels=8, average="macro")
    assert macro_precision(scores, labels) == pytest.approx(
        float(metric(torch.tensor(scores), torch.tensor(labels).int())), abs=1e-5
    )


def test_the_two_average_precisions_are_not_one() -> None:
    scores, labels = np.array([[0.9, 0.1], [0.8, 0.7]]), np.array([[True, False], [False, True]])
    assert ranking_precision(np.array([[0, 1], [0, 1]]), labels).tolist() == [1, 0.5]
    assert class_precision(scores, labels).tolist() == [1, 1]


def test_a_class_that_no_image_has_does_not_count() -> None:
    scores, labels = sample(0, k=4)
    labels[:, 2] = False
    found = class_precision(scores, labels)
    assert np.isnan(found[2])
    assert macro_precision(scores, labels) == pytest.approx(found[[0, 1, 3]].mean())


def test_a_constant_score_gains_nothing() -> None:
    labels = np.array([[True, False, False, False]])
    assert score_ranking_precision(np.zeros((1, 4)), labels).tolist() == [0.25]


def test_top1_precision_asks_for_any_label() -> None:
    labels = np.array([[True, True, False], [False, True, True], [True, False, False]])
    assert top1_precision(np.array([1, 0, 0]), labels) == wilson(2, 3)


def test_errors_say_what_came() -> None:
    labels = np.array([[True, False], [False, False]])
    good = labels[:1]
    with pytest.raises(ValueError, match="1 of 2 images have no label, the first is 1; leave them out"):
        top1_precision(np.zeros(2, int), labels)
    with pytest.raises(ValueError, match=r"true where an image has a class, got int64 \(1, 2\)"):
        ranking_precision(np.array([[0, 1]]), good.astype(np.int64))
    with pytest.raises(ValueError, match=r"each of 2 classes once .* got shape \(1, 2\) with values 1 to 1"):
        ranking_precision(np.array([[1, 1]]), good)
    with pytest.raises(ValueError, match=r"got \(1, 3\) and \(1, 2\)"):
        class_precision(np.zeros((1, 3)), good)
    with pytest.raises(ValueError, match="1 scores are not numbers; give untried classes -inf"):
        score_ranking_precision(np.array([[np.nan, 0]]), good)
    with pytest.raises(ValueError, match="one winner per image"):
        top1_precision(np.zeros(3, int), good)
    with pytest.raises(ValueError, match="no image has a label"):
        macro_precision(np.zeros((1, 2)), np.zeros((1, 2), bool))

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_accuracy

from bigain.metrics.accuracy import per_class, top1
from bigain.metrics.intervals import wilson


def test_top1_counts_hits() -> None:
    assert top1(np.array([0, 1, 2, 2]), np.array([0, 1, 1, 2])) == wilson(3, 4)


def test_per_class_is_torchmetrics() -> None:
    rng = np.random.default_rng(0)
    predicted, truth = rng.integers(0, 6, 300), rng.integers(0, 6, 300)
    theirs = multiclass_accuracy(torch.tensor(predicted), torch.tensor(truth), num_classes=6, average="none")
    mine = per_class(predicted, truth)
    assert [mine[k].value for k in range(6)] == pytest.approx(theirs.tolist())
    assert sum(share.hits for share in mine.values()) == top1(predicted, truth).hits
    assert sum(share.n for share in mine.values()) == 300


def test_a_class_without_images_has_no_share() -> None:
    assert set(per_class(np.array([5, 0]), np.array([0, 0]))) == {0}


def test_predictions_and_truth_match() -> None:
    with pytest.raises(ValueError, match=r"got \(3,\) and \(2,\)"):
        top1(np.zeros(3), np.zeros(2))

import itertools
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.policies import Exhaustive, Stages
from bigain.loading import load_denoiser
from helpers.toys import PointDenoiser, points

POLICIES = [Stages((5, 20), (5, 1)), Stages((4, 10, 40), (6, 3, 1)), Exhaustive(8)]


def noisy_points(found: torch.Tensor, spread: float = 0.3) -> torch.Tensor:
    noise = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    return (found + spread * noise).clamp(-1, 1)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_every_policy_finds_the_nearest_point(policy: object) -> None:
    found = points(8)
    images = noisy_points(found)
    decisions = DiffusionClassifier(PointDenoiser(found), range(8), policy)(images)
    distances = ((images[:, None] - found[None]) ** 2).mean((2, 3, 4))
    assert [d.label for d in decisions] == distances.argmin(1).tolist()
    assert [d.ranking[0] for d in decisions] == [d.index for d in decisions]


def test_class_numbers_may_be_numpys() -> None:
    found = points(4)
    decisions = DiffusionClassifier(PointDenoiser(found), np.arange(4))(found)
    assert [type(d.label) for d in decisions] == [int] * 4
    bundled = load_denoiser("fashion-unet").conditions(np.arange(2)).values["encoder_hidden_states"]
    assert torch.equal(
        bundled, load_denoiser("fashion-unet").conditions(["T-shirt/top", "trouser"]).values["encoder_hidden_states"]
    )


def test_errors_are_the_closed_form() -> None:
    found = points(4)
    denoiser = PointDenoiser(found)
    image = noisy_points(found)[:1]
    decision = DiffusionClassifier(denoiser, range(4), Exhaustive(5))(image)[0]
    signal, spread = denoiser.schedule.levels()
    steps = list(decision.timesteps)
    distances = ((image - found) ** 2).mean((1, 2, 3))
    expected = distances[:, None] * (signal[steps] / spread[steps])[None] ** 2
    np.testing.assert_allclose(decision.errors, expected, rtol=1e-4)


def test_stages_spend_what_the_algorithm_says() -> None:
    found = points(10)
    decision = DiffusionClassifier(PointDenoiser(found), range(10), Stages((5, 20), (5, 1)))(found[:1])[0]
    assert decision.evaluations == 10 * 5 + 5 * 15
    assert np.isnan(decision.errors).sum() == 5 * 15


def test_ranking_puts_losing_finalists_before_early_losers() -> None:
    found = points(10)
    decision = DiffusionClassifier(PointDenoiser(found), range(10), Stages((5, 20), (5, 1)))(found[:1])[0]
    tried = (~np.isnan(decision.errors)).sum(1)
    assert sorted(decision.ranking) == list(range(10))
    assert all(tried[k] == 20 for k in decision.ranking[:5])
    distances = ((found[:1] - found) ** 2).mean((1, 2, 3))
    assert list(decision.ranking) == distances.argsort().tolist()


@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_batches_and_order_change_nothing(batch_size: int) -> None:
    found = points(6)
    images = noisy_points(found)
    whole = DiffusionClassifier(PointDenoiser(found), range(6))(images)
    order = [3, 0, 5, 1, 4, 2]
    parts = DiffusionClassifier(PointDenoiser(found), range(6), batch_size=batch_size)(images[order])
    for place, decision in zip(order, parts, strict=True):
        np.testing.assert_allclose(decision.errors, whole[place].errors, rtol=1e-5)


def test_classes_of_a_trial_stay_in_one_batch() -> None:
    found = points(6)
    denoiser = PointDenoiser(found)
    DiffusionClassifier(denoiser, range(6), Exhaustive(5), batch_size=15)(found[:3])
    assert all(rows % 6 == 0 for rows in denoiser.batches)
    assert max(denoiser.batches) <= 15


def test_nan_never_wins() -> None:
    found = points(5)
    found[2] = torch.nan
    with pytest.warns(RuntimeWarning, match=r"image 0, t = \d+: 2 has error nan; it cannot win"):
        decision = DiffusionClassifier(PointDenoiser(found), range(5))(points(5)[2:3])[0]
    assert decision.index != 2


def test_no_finite_error_at_all_names_the_image() -> None:
    with pytest.raises(FloatingPointError, match=r"image 0, t = 125: no class has a finite error, 0 has error nan"):
        DiffusionClassifier(PointDenoiser(points(5) * torch.nan), range(5))(points(5)[2:3])


@pytest.mark.parametrize("images", ["shoe.png", Path("shoe.png"), Image.new("L", (2, 2))])
def test_one_image_is_no_list(images: object) -> None:
    with pytest.raises(TypeError, match=r"images must be a list, like classifier\(\[image\]\)"):
        DiffusionClassifier(PointDenoiser(points(3)), range(3))(images)


def labels(decisions: object) -> list[object]:
    return [decision.label for decision in decisions]


def test_images_may_be_anything_to_iterate_over() -> None:
    found = points(6)
    classifier = DiffusionClassifier(PointDenoiser(found), range(6), Exhaustive(2))
    expected = list(range(6))
    assert labels(classifier(image for image in found)) == expected
    assert labels(classifier(tuple(found))) == expected
    assert labels(classifier(dict(enumerate(found)).values())) == expected
    assert labels(classifier(iter([]))) == []


@pytest.mark.parametrize(
    ("images", "text"),
    [
        (None, r"images must be a list or another iterable, got None"),
        (5, r"images must be a list or another iterable, got 5"),
        ({"a": 1}, r"must be a list, got a dict; use list\(images\.values\(\)\)"),
        (b"png", r"like classifier\(\[image\]\), got b'png'"),
        (np.zeros((28, 28), np.uint8), r"like classifier\(\[image\]\), got ndarray \(28, 28\)"),
        (np.zeros((28, 28, 3), np.uint8), r"like classifier\(\[image\]\), got ndarray \(28, 28, 3\)"),
        (torch.zeros(4, 4), r"like classifier\(\[image\]\), got Tensor torch.Size\(\[4, 4\]\)"),
    ],
)
@pytest.mark.parametrize("method", ["__call__", "stream"])
def test_what_is_no_list_of_images(images: object, text: str, method: str) -> None:
    classifier = DiffusionClassifier(PointDenoiser(points(3)), range(3))
    with pytest.raises(TypeError, match=text):
        getattr(classifier, method)(images)  # the stream does not wait for its first step


def test_only_images_in_flight_are_kept() -> None:
    """An endless source is classified step by step, and what is done with can be freed."""
    made: list[weakref.ref[Image.Image]] = []
    taken = 0

    def endless() -> Iterator[Image.Image]:
        nonlocal taken
        while True:
            taken += 1
            picture = Image.new("L", (4, 4), taken % 256)
            made.append(weakref.ref(picture))
            yield picture

    denoiser = PointDenoiser(points(6))
    classifier = DiffusionClassifier(denoiser, range(6), Exhaustive(2), batch_size=24)
    most = 0
    for number, _ in itertools.islice(classifier.stream(endless()), 200):
        assert taken - number <= 3
        most = max(most, sum(picture() is not None for picture in made))
    assert most <= 2
    assert taken <= 203


def test_unreadable_images_are_told_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    found = points(4)
    images = [found[0], tmp_path / "bad.png", found[2], str(tmp_path / "gone.png")]
    classifier = DiffusionClassifier(PointDenoiser(found), range(4), Exhaustive(2))
    told: dict[int, str] = {}
    decisions = dict(classifier.stream(iter(images), lambda number, error: told.update({number: str(error)})))
    assert {number: decision.label for number, decision in decisions.items()} == {0: 0, 2: 2}
    assert told.keys() == {1, 3}
    assert told[1].startswith(f"cannot read {tmp_path / 'bad.png'} as an image")
    with pytest.raises(ValueError, match="cannot read"):
        classifier(images)

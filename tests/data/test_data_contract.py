"""What every dataset must show, on a miniature copy in its official layout."""

import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest

from bigain.classify.images import to_tensor
from bigain.data import DATASETS, Dataset, load_data
from bigain.denoisers.base import ImageSpec
from helpers.miniatures import MINIATURES

VARIABLES = [
    "BIGAIN_FASHION_MNIST", "BIGAIN_CIFAR10", "BIGAIN_IMAGENET", "BIGAIN_PETS", "BIGAIN_COCO", "BIGAIN_QUICKDRAW"
]  # fmt: skip
OFFICIAL = ["fashion-mnist", "cifar-10", "quickdraw", "imagenet-1k", "imagenet-100", "pets", "coco"]


@pytest.fixture(params=MINIATURES)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    if request.param == "huggingface":
        pytest.importorskip("datasets")
    return load_data(MINIATURES[request.param](tmp_path))


def test_every_data_set_has_a_miniature() -> None:
    assert set(MINIATURES) == set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_the_first_sentence_of_the_docstring_says_what_it_is(name: str) -> None:
    first = (inspect.getdoc(DATASETS[name]) or "").splitlines()[0]
    assert first.endswith(".")
    assert len(first) <= 120


def test_examples_have_unique_names_and_valid_labels(data: Dataset) -> None:
    assert len(data) == len(data.examples) > 0
    assert len({example.name for example in data.examples}) == len(data)
    assert len(set(data.classes)) == len(data.classes)
    for example in data.examples:
        assert isinstance(example.labels, tuple)
        assert all(type(label) is int and 0 <= label < len(data.classes) for label in example.labels)
        assert data.multilabel or len(example.labels) == 1


def test_images_can_be_read(data: Dataset) -> None:
    tensor = to_tensor(data.examples[0].image, ImageSpec(8, 3, 0))
    assert tensor.shape == (3, 8, 8)
    assert tensor.std() > 0.05


def test_loading_twice_gives_the_same(data: Dataset, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    name = next(name for name in MINIATURES if f"[{name}]" in request.node.name)
    other = tmp_path / "other"
    other.mkdir()
    again = load_data(MINIATURES[name](other))
    assert [(e.name, e.labels, e.captions) for e in again.examples] == [
        (e.name, e.labels, e.captions) for e in data.examples
    ]
    assert again.classes == data.classes


def test_subsets_begin_one_seeded_order(data: Dataset) -> None:
    whole = [example.name for example in data.subset(len(data)).examples]
    assert sorted(whole) == sorted(example.name for example in data.examples)
    for n in (1, len(data) // 2 + 1):
        part = data.subset(n)
        assert [example.name for example in part.examples] == whole[:n]
        assert (part.name, part.split, part.classes, part.numbers) == (
            data.name, data.split, data.classes, data.numbers
        )  # fmt: skip


def test_a_subset_keeps_image_labels_and_captions_together(data: Dataset) -> None:
    known = {example.name: example for example in data.examples}
    for example in data.subset(min(len(data), 5), seed=3).examples:
        assert example[2:] == known[example.name][2:]
        image_spec = ImageSpec(8, 3, 0)
        assert np.array_equal(to_tensor(example.image, image_spec), to_tensor(known[example.name].image, image_spec))


def test_prompts_numbers_and_description(data: Dataset) -> None:
    assert data.prompts.format(data.classes[0]).startswith(("a photo of a ", "a drawing of a "))
    assert data.numbers is None or len(data.numbers) == len(data.classes)
    assert data.describe().startswith(f"{data.name} {data.split}: {len(data):,} images, {len(data.classes):,} classes")
    assert "\n" not in data.describe()


def test_a_data_set_can_go_to_another_process(data: Dataset) -> None:
    again = pickle.loads(pickle.dumps(data.subset(1)))
    assert again.examples[0].name == data.subset(1).examples[0].name


@pytest.mark.parametrize("name", OFFICIAL)
def test_nothing_there_explains_layout_root_and_variable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"^no .*: expected .*; pass the folder as root= or set BIGAIN_"
    ) as error:
        load_data(f"{name}(root={str(tmp_path)!r})")
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("name", OFFICIAL)
def test_a_mistyped_split_lists_the_splits(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^unknown .* split 'tset'\. (Did you mean 'test'\? )?Available: "):
        load_data(f"{name}(root={str(tmp_path)!r}, split='tset')")

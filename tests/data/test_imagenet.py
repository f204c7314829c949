from collections.abc import Callable
from pathlib import Path

import pytest

from bigain.data import load_data
from bigain.data.imagenet import HUNDRED, KAGGLE, SOLUTION, TRUTH, read_synsets
from helpers import miniatures

LAYOUTS = [miniatures.imagenet_folders, miniatures.imagenet_devkit, miniatures.imagenet_kaggle]


def test_the_list_of_classes() -> None:
    synsets = read_synsets()
    assert len(synsets.ids) == len(set(synsets.names)) == 1000
    assert list(synsets.ids) == sorted(synsets.ids)  # which is what makes the place the label number
    known = {0: "tench", 207: "Golden Retriever", 281: "tabby cat", 388: "giant panda", 980: "volcano"}
    assert {number: synsets.names[number] for number in known} == known
    assert (synsets.ids[0], synsets.ids[999]) == ("n01440764", "n15075141")
    assert all(name == name.strip() and name for name in synsets.names)


def test_the_hundred_are_a_hundred() -> None:
    assert len(set(HUNDRED)) == 100
    assert list(HUNDRED) == sorted(HUNDRED)
    assert (HUNDRED[0], HUNDRED[-1]) == (15, 994)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same(layout: Callable[[Path], str], tmp_path: Path) -> None:
    data = load_data(layout(tmp_path))
    ids = read_synsets().ids
    found = {example.name: ids[example.labels[0]] for example in data.examples}
    assert found == dict(zip(miniatures.imagenet_names(), miniatures.imagenet_truth(), strict=True))
    assert all(example.image.stem == example.name for example in data.examples)
    assert data.numbers == tuple(range(1000))
    assert data.describe() == "imagenet-1k val: 9 images, 1,000 classes"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_hundred_classes_keep_their_numbers(layout: Callable[[Path], str], tmp_path: Path) -> None:
    data = load_data(layout(tmp_path).replace("1k", "100"))
    assert data.numbers == HUNDRED
    assert data.classes[0] == "American robin"
    found = {example.name[-1]: example.labels for example in data.examples}
    assert found == {"3": (0,), "4": (1,), "6": (0,), "7": (99,)}
    assert data.describe() == "imagenet-100 val: 4 images, 100 classes"


def test_draws_are_the_same_in_every_layout(tmp_path: Path) -> None:
    drawn = []
    for layout in LAYOUTS:
        root = tmp_path / layout.__name__
        root.mkdir()
        drawn.append([example.name for example in load_data(layout(root)).subset(5).examples])
    assert drawn[0] == drawn[1] == drawn[2]


def test_training_images(tmp_path: Path) -> None:
    miniatures.imagenet_folders(tmp_path)
    data = load_data(f"imagenet-1k({str(tmp_path)!r}, split='train')")
    assert data.examples[0].name == "n01440764_1"


def test_kaggle_data_by_its_inner_folder(tmp_path: Path) -> None:
    miniatures.imagenet_kaggle(tmp_path)
    assert len(load_data(f"imagenet-1k({str(tmp_path / KAGGLE)!r})")) == 9


def test_a_flat_folder_needs_answers(tmp_path: Path) -> None:
    miniatures.imagenet_kaggle(tmp_path)
    (tmp_path / SOLUTION).unlink()
    with pytest.raises(FileNotFoundError, match=r"val/n01440764/\*\.JPEG.*meta\.mat.*LOC_val_solution\.csv; pass"):
        load_data(f"imagenet-1k({str(tmp_path)!r})")


def test_training_images_lie_in_folders(tmp_path: Path) -> None:
    miniatures.write_image(tmp_path / "train/one.JPEG")
    with pytest.raises(FileNotFoundError, match=r"train has no folder such as n01440764\): expected val/n01440764"):
        load_data(f"imagenet-1k({str(tmp_path)!r}, split='train')")


@pytest.mark.parametrize(
    "text",
    [
        "Image,Boxes\nILSVRC2012_val_00000001,n01440764 1 2 3 4\n",
        "ImageId,PredictionString\nILSVRC2012_val_00000001,\n",
        "ImageId,PredictionString\nILSVRC2012_val_00000001,n99999999 1 2 3 4\n",
    ],
)
def test_a_damaged_table_of_answers(text: str, tmp_path: Path) -> None:
    spec = miniatures.imagenet_kaggle(tmp_path)
    (tmp_path / SOLUTION).write_text(text)
    with pytest.raises(ValueError, match=r"solution\.csv, line 2: expected the columns ImageId and PredictionString"):
        load_data(spec)


@pytest.mark.parametrize("word", ["tench", "4711"])
def test_a_damaged_list_of_answers(word: str, tmp_path: Path) -> None:
    spec = miniatures.imagenet_devkit(tmp_path)
    lines = (tmp_path / TRUTH).read_text().split()
    (tmp_path / TRUTH).write_text("\n".join([*lines[:3], word, *lines[4:]]))
    with pytest.raises(ValueError, match=r"ground_truth\.txt, line 4: expected one of the \d+ numbers of classes"):
        load_data(spec)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_a_missing_image_is_named(layout: Callable[[Path], str], tmp_path: Path) -> None:
    spec = layout(tmp_path)
    next(tmp_path.rglob("*_00000003.JPEG")).unlink()
    with pytest.raises(FileNotFoundError, match=r"^1 of the 9 images .* are missing, first .*_00000003\.JPEG"):
        load_data(spec)

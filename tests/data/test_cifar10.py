import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bigain.data import load_data
from bigain.data.cifar10 import cifar10
from helpers import miniatures


def nested_binaries(root: Path) -> None:
    (root / "cifar-10-batches-bin").mkdir()
    miniatures.cifar_binaries(root / "cifar-10-batches-bin")


@pytest.mark.parametrize("layout", [miniatures.cifar_binaries, nested_binaries, miniatures.cifar_sheets])
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_layout_gives_the_same(layout: Callable[[Path], object], split: str, tmp_path: Path) -> None:
    layout(tmp_path)
    images, labels = miniatures.cifar_images(split)
    found = cifar10(split, tmp_path)
    assert np.array_equal(found.images, images)
    assert found.images.dtype == np.uint8
    assert found.labels.tolist() == labels
    assert found.labels.dtype == np.int64
    assert found.classes[:3] == ("airplane", "automobile", "bird")


def test_examples_are_the_rows(tmp_path: Path) -> None:
    data = load_data(miniatures.cifar_binaries(tmp_path))
    assert [example.name for example in data.examples] == ["test-00000", "test-00001", "test-00002", "test-00003"]
    assert [data.classes[example.labels[0]] for example in data.examples] == ["airplane", "horse", "deer", "automobile"]
    assert data.examples[2].image.shape == (32, 32, 3)


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    miniatures.cifar_binaries(tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    assert len(cifar10("test", tmp_path).labels) == 4
    with pytest.raises(
        FileNotFoundError, match=r"lacks data_batch_3\.bin\): expected data_batch_1\.bin to data_batch_5"
    ):
        cifar10("train", tmp_path)


def test_cut_binaries(tmp_path: Path) -> None:
    miniatures.cifar_binaries(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes(3072))
    with pytest.raises(ValueError, match=r"test_batch\.bin has 3072 bytes, not a multiple of 3073; download it again"):
        cifar10("test", tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(ValueError, match="labels must be 0 to 9, got 10 in the test split"):
        cifar10("test", tmp_path)


def test_foreign_sheets(tmp_path: Path) -> None:
    miniatures.cifar_sheets(tmp_path)
    (tmp_path / "test_lables.json").write_text(json.dumps([1, 2, 3]))
    with pytest.raises(ValueError, match=r"4 images in the sheets but 3 labels in .*test_lables\.json"):
        cifar10("test", tmp_path)
    (tmp_path / "test_lables.json").write_text('["cat", "dog"]')
    with pytest.raises(ValueError, match=r"test_lables\.json is not a JSON list of labels: .*; download it again"):
        cifar10("test", tmp_path)
    Image.new("RGB", (32, 32)).save(tmp_path / "test_batch.png")
    with pytest.raises(ValueError, match="must be 1024 pixels wide, one image per row, got 32"):
        cifar10("test", tmp_path)
    sheet = tmp_path / "data_batch_2.png"
    sheet.write_bytes(sheet.read_bytes()[:-2000])
    with pytest.raises(ValueError, match=r"cannot read .*data_batch_2\.png: .*; download it again"):
        cifar10("train", tmp_path)

import gzip
from pathlib import Path

import numpy as np
import pytest

from bigain.data import load_data
from bigain.data.fashion_mnist import fashion_mnist, fashion_sample, make_sample, sample_rows
from helpers import miniatures


@pytest.fixture
def root(tmp_path: Path) -> Path:
    miniatures.fashion_mnist(tmp_path)
    return tmp_path


def test_reads_the_official_layout(root: Path) -> None:
    found = fashion_mnist("test", root)
    assert found.images.shape == (30, 28, 28)
    assert found.labels.tolist() == [i % 10 for i in range(30)]
    assert len(found.classes) == 10


def test_examples_are_the_rows(root: Path) -> None:
    found, data = fashion_mnist("train", root), load_data(f"fashion-mnist({str(root)!r}, split='train')")
    assert data.examples[12].name == "train-00012"
    assert data.classes[data.examples[12].labels[0]] == "pullover"
    assert np.array_equal(data.examples[12].image, found.images[12])


def test_sample_is_balanced_and_seeded(root: Path) -> None:
    test = fashion_mnist("test", root)
    first, again, other = make_sample(test, 2), make_sample(test, 2), make_sample(test, 2, seed=1)
    assert np.bincount(first["labels"]).tolist() == [2] * 10
    assert np.array_equal(first["rows"], again["rows"])
    assert not np.array_equal(first["rows"], other["rows"])
    assert np.array_equal(first["images"], test.images[first["rows"]])


def test_the_bundled_sample() -> None:
    found = fashion_sample()
    assert found.images.shape == (500, 28, 28)
    assert np.bincount(found.labels).tolist() == [50] * 10
    assert len(set(sample_rows())) == 500


def test_the_sample_bears_the_names_of_the_whole_test_set() -> None:
    data, rows = load_data("fashion-sample"), sample_rows()
    assert [example.name for example in data.examples] == [f"test-{row:05d}" for row in rows]


def test_missing_files_explain_the_layout(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"t10k-images-idx3-ubyte\.gz.*dataset-fashion-mnist"):
        fashion_mnist("test", tmp_path)


def test_truncated_and_foreign_files(root: Path) -> None:
    images = root / "t10k-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    images.write_bytes(gzip.compress(gzip.decompress(whole)[:-1]))
    with pytest.raises(ValueError, match="truncated: 23519 bytes where its header promises 23520"):
        fashion_mnist("test", root)
    for foreign in (b"something else, long enough", b"", b"\x00"):
        images.write_bytes(gzip.compress(foreign))
        with pytest.raises(ValueError, match="not an IDX file"):
            fashion_mnist("test", root)
    for broken in (whole[:-100], b"not gzip at all"):
        images.write_bytes(broken)
        with pytest.raises(ValueError, match=r"idx3-ubyte\.gz is not a complete gzip file: .*; download it again"):
            fashion_mnist("test", root)


def test_images_and_labels_must_be_as_many(root: Path) -> None:
    miniatures.write_idx(root / "t10k-labels-idx1-ubyte.gz", np.zeros(29, np.uint8))
    with pytest.raises(ValueError, match="30 images but 29 labels in the test split"):
        fashion_mnist("test", root)


def test_unknown_split(root: Path) -> None:
    with pytest.raises(ValueError, match=r"^unknown Fashion-MNIST split 'val'. Available: train, test$"):
        fashion_mnist("val", root)

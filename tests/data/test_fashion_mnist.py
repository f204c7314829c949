import gzip
from pathlib import Path

import numpy as np
import pytest

from bigain.data.fashion_mnist import STEMS, fashion_mnist, fashion_sample, make_sample, sample_rows


def write_idx(path: Path, array: np.ndarray) -> None:
    header = np.array([0x0800 + array.ndim, *array.shape], ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for stem in STEMS.values():
        write_idx(tmp_path / f"{stem}-images-idx3-ubyte.gz", rng.integers(0, 256, (30, 28, 28), dtype=np.uint8))
        write_idx(tmp_path / f"{stem}-labels-idx1-ubyte.gz", (np.arange(30) % 10).astype(np.uint8))
    return tmp_path


def test_reads_the_official_layout(root: Path) -> None:
    found = fashion_mnist("test", root)
    assert found.images.shape == (30, 28, 28)
    assert found.labels.tolist() == [i % 10 for i in range(30)]
    assert len(found.classes) == 10


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


def test_missing_files_explain_the_layout(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"t10k-images-idx3-ubyte\.gz"):
        fashion_mnist("test", tmp_path)


def test_truncated_and_foreign_files(root: Path) -> None:
    images = root / "t10k-images-idx3-ubyte.gz"
    images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-1]))
    with pytest.raises(ValueError, match="truncated"):
        fashion_mnist("test", root)
    images.write_bytes(gzip.compress(b"something else, long enough"))
    with pytest.raises(ValueError, match="not an IDX file"):
        fashion_mnist("test", root)


def test_unknown_split(root: Path) -> None:
    with pytest.raises(ValueError, match="train and test"):
        fashion_mnist("val", root)  # type: ignore[arg-type]

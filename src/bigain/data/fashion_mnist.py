"""Fashion-MNIST from its official gzip IDX files (Zalando, MIT licence)."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from bigain.data.arrays import LabelledImages, as_examples
from bigain.data.dataset import Dataset
from bigain.data.files import Home, check_split
from bigain.data.loaders import DATASETS

CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
STEMS = {"train": "train", "test": "t10k"}
SAMPLE = Path(__file__).parent / "fashion_sample.npz"
HOME = Home(
    title="Fashion-MNIST",
    variable="BIGAIN_FASHION_MNIST",
    places=("data/fashion-mnist", "/usr/share/datasets/fashion-mnist"),
    layout="train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and "
    "t10k-labels-idx1-ubyte.gz, from Debian's package dataset-fashion-mnist or the Fashion-MNIST repository",
)


@DATASETS.register("fashion-mnist")
def load_fashion_mnist(root: str | None = None, split: str = "test") -> Dataset:
    """Fashion-MNIST, 28x28 grey, 10 classes, from its IDX files (split: test or train)."""
    found = fashion_mnist(split, root)
    return Dataset("fashion-mnist", split, CLASSES, as_examples(found, split, range(len(found.labels))))


@DATASETS.register("fashion-sample")
def load_fashion_sample() -> Dataset:
    """500 bundled test images of Fashion-MNIST, 50 per class."""
    return Dataset("fashion-sample", "test", CLASSES, as_examples(fashion_sample(), "test", sample_rows()))


def fashion_mnist(split: str, root: str | Path | None = None) -> LabelledImages:
    """The whole split (train or test), from `root`, $BIGAIN_FASHION_MNIST or a default folder."""
    check_split(HOME.title, split, tuple(STEMS))
    stem = STEMS[split]
    files = HOME.find(root, [f"{stem}-images-idx3-ubyte.gz", f"{stem}-labels-idx1-ubyte.gz"])
    images, labels = read_idx(files[0], dims=3), read_idx(files[1], dims=1)
    if len(images) != len(labels):
        raise ValueError(f"{files[0].parent}: {len(images)} images but {len(labels)} labels in the {split} split")
    return LabelledImages(images, labels.astype(np.int64), CLASSES)


def fashion_sample() -> LabelledImages:
    """500 bundled test images, 50 per class."""
    with np.load(SAMPLE, allow_pickle=False) as file:
        return LabelledImages(file["images"], file["labels"].astype(np.int64), CLASSES)


def sample_rows() -> np.ndarray:
    """Numbers, in the official test set, of the images of `fashion_sample`."""
    with np.load(SAMPLE, allow_pickle=False) as file:
        return file["rows"].astype(np.int64)


def make_sample(test: LabelledImages, each: int = 50, seed: int = 0) -> dict[str, np.ndarray]:
    """The arrays of the sample file: a seeded draw of the same number of images from each class, in random order."""
    rng = np.random.default_rng(seed)
    groups = [rng.choice(np.flatnonzero(test.labels == k), each, replace=False) for k in range(len(test.classes))]
    rows = rng.permutation(np.concatenate(groups))
    return {"images": test.images[rows], "labels": test.labels[rows].astype(np.uint8), "rows": rows.astype(np.int16)}


def read_idx(path: Path, dims: int) -> np.ndarray:
    """The array in a gzip IDX file of unsigned bytes."""
    try:
        with gzip.open(path) as file:
            data = file.read()
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file: {error}; download it again") from error
    if len(data) < 4 * (1 + dims) or int.from_bytes(data[:4], "big") != 0x0800 + dims:
        raise ValueError(f"{path} is not an IDX file of unsigned bytes with {dims} dimensions")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", count=dims, offset=4))
    body = np.frombuffer(data, np.uint8, offset=4 * (1 + dims))
    if body.size != np.prod(shape):
        raise ValueError(f"{path} is truncated: {body.size} bytes where its header promises {np.prod(shape)}")
    return body.reshape(shape)

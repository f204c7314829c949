"""Fashion-MNIST from its official gzip IDX files (Zalando, MIT licence)."""

import gzip
import os
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
STEMS = {"train": "train", "test": "t10k"}
SAMPLE = Path(__file__).parent / "fashion_sample.npz"
PLACES = (Path("data/fashion-mnist"), Path("/usr/share/datasets/fashion-mnist"))


class LabelledImages(NamedTuple):
    """Images (N, H, W) or (N, H, W, 3) as uint8, labels (N,), and the names of the classes."""

    images: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]


def fashion_mnist(split: Literal["train", "test"], root: str | Path | None = None) -> LabelledImages:
    """The whole split, from `root`, $BIGAIN_FASHION_MNIST or one of the usual places."""
    if split not in STEMS:
        raise ValueError(f"split {split!r} is unknown; Fashion-MNIST has train and test")
    folder = _folder(root)
    stem = STEMS[split]
    images = _read_idx(folder / f"{stem}-images-idx3-ubyte.gz", dims=3)
    labels = _read_idx(folder / f"{stem}-labels-idx1-ubyte.gz", dims=1)
    if len(images) != len(labels):
        raise ValueError(f"{folder}: {len(images)} images but {len(labels)} labels in the {split} split")
    return LabelledImages(images, labels.astype(np.int64), CLASSES)


def fashion_sample() -> LabelledImages:
    """500 test images, 50 of each class, that come with the package."""
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


def _folder(root: str | Path | None) -> Path:
    asked = root or os.environ.get("BIGAIN_FASHION_MNIST")
    places = (Path(asked),) if asked else PLACES
    for place in places:
        if (place / "t10k-images-idx3-ubyte.gz").is_file():
            return place
    raise FileNotFoundError(
        f"no Fashion-MNIST in {', '.join(map(str, places))}: expected train-images-idx3-ubyte.gz, "
        "train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz. "
        "They come with Debian's package dataset-fashion-mnist or from the Fashion-MNIST repository; "
        "pass their folder or set BIGAIN_FASHION_MNIST"
    )


def _read_idx(path: Path, dims: int) -> np.ndarray:
    with gzip.open(path) as file:
        data = file.read()
    header = np.frombuffer(data, ">u4", count=1 + dims)
    if header[0] != 0x0800 + dims:
        raise ValueError(f"{path} is not an IDX file of unsigned bytes with {dims} dimensions")
    shape = tuple(int(n) for n in header[1:])
    body = np.frombuffer(data, np.uint8, offset=4 * (1 + dims))
    if body.size != np.prod(shape):
        raise ValueError(f"{path} is truncated: {body.size} bytes where its header promises {np.prod(shape)}")
    return body.reshape(shape)

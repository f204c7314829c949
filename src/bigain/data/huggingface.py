"""Hugging Face `datasets`, from the Hub or from a folder written by `save_to_disk`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import UnidentifiedImageError

from bigain.data.dataset import PROMPT, Dataset, LazyExamples
from bigain.data.files import check_split
from bigain.data.loaders import DATASETS


@dataclass(frozen=True)
class Cell:
    """Reads the image of a row."""

    table: Any  # with the one column
    column: str
    split: str

    def __call__(self, row: int) -> Any:
        try:
            image = self.table[row][self.column]
        except (UnidentifiedImageError, OSError, SyntaxError) as error:
            raise ValueError(f"cannot read row {row} of {self.split} as an image: {error}") from error
        if image is None:
            raise ValueError(f"row {row} of {self.split} has no image")
        return image


@DATASETS.register("huggingface")
def load_huggingface(
    name: str, split: str = "test", config: str | None = None, label: str | None = None, prompts: str = PROMPT
) -> Dataset:
    """A Hugging Face dataset by name, or a folder written by save_to_disk, with image and label columns.

    `label` is the label column, needed only if there are several.
    """
    table = open_table(name, split, config)
    image, answer, feature, multilabel = find_columns(table.features, name, label)
    found = table.select_columns([answer])[answer][:]
    labels = [tuple(row or ()) if multilabel else (row,) for row in found]
    names = [f"{split}-{row:06d}" for row in range(len(labels))]
    reader = Cell(table.select_columns([image]), image, split)
    examples = LazyExamples(names, labels, reader, range(len(labels)))
    return Dataset(name, split, tuple(feature.names), examples, prompts, multilabel=multilabel)


def open_table(name: str, split: str, config: str | None) -> Any:
    try:
        import datasets
    except ImportError:
        raise ImportError("Hugging Face datasets need the package datasets: pip install bigain[datasets]") from None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return datasets.load_dataset(name, config, split=split)
    if not any((folder / mark).is_file() for mark in ("dataset_dict.json", "state.json")):
        raise ValueError(f"{folder} was not written by save_to_disk; folder('{name}') reads subfolders of images")
    found = datasets.load_from_disk(folder)
    if isinstance(found, datasets.Dataset):
        check_split(name, split, [str(found.split or split)])  # a table may say which split it is
        return found
    check_split(name, split, list(found))
    return found[split]


def find_columns(features: Any, name: str, label: str | None) -> tuple[str, str, Any, bool]:
    """The columns of images and of labels by their types; the type of the labels; whether an image has several."""
    import datasets

    images = [key for key, feature in features.items() if isinstance(feature, datasets.Image)]
    usable = {key: feature for key, feature in features.items() if label in (None, key)}
    labels = [key for key, feature in usable.items() if isinstance(feature, datasets.ClassLabel)]
    inner = {key: getattr(feature, "feature", None) for key, feature in usable.items()}
    several = [key for key, feature in inner.items() if isinstance(feature, datasets.ClassLabel)]
    if len(images) != 1 or len(labels) + len(several) != 1:
        raise ValueError(
            f"{name} has the columns {', '.join(features)}; expected one of type Image and one of type ClassLabel "
            f"or List(ClassLabel), found {len(images)} and {len(labels) + len(several)}; choose the labels with "
            "label='column', or cast the columns and save the dataset again with save_to_disk"
        )
    if several:
        return images[0], several[0], inner[several[0]], True
    return images[0], labels[0], features[labels[0]], False

"""The images of an experiment, sent through a cluster in blocks; a node fetches those of the chunk it works on."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bigain.data import Dataset
from bigain.data.dataset import LazyExamples, columns
from bigain.experiments.chunks import CLASSIFIED_AT_ONCE


class SentFile(NamedTuple):
    """An image file: its path where it was read, and its bytes."""

    path: str
    data: bytes


class Unreadable(NamedTuple):
    """Why an image could not be sent."""

    reason: str


@dataclass
class SentData:
    """A dataset whose images are references to blocks of them; `fetch` is how a block is had."""

    words: dict[str, Any]  # all of the dataset but its examples
    names: list[str]
    labels: list[tuple[int, ...]]
    blocks: list[Any]
    fetch: Callable[[Any], list[Any]]
    block: tuple[int, list[Any]] | None = None  # the one in use
    folder: str | None = None  # of the files in use
    added: str = ""  # what stands before their paths

    def dataset(self) -> Dataset:
        rows = range(len(self.names))
        return Dataset(**self.words, examples=LazyExamples(self.names, self.labels, self.read, rows))

    def read(self, row: int) -> Any:
        """The image of a row: files are written again, as images are opened by their paths."""
        number = row // CLASSIFIED_AT_ONCE
        if self.block is None or self.block[0] != number:
            self.block = number, self.fetch(self.blocks[number])
        image = self.block[1][row % CLASSIFIED_AT_ONCE]
        if isinstance(image, Unreadable):
            raise ValueError(image.reason)
        return self.written(image) if isinstance(image, SentFile) else image

    def written(self, image: SentFile) -> Path:
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="bigain-images-")
        self.added = self.folder if os.path.isabs(image.path) else self.folder + os.sep
        place = Path(self.added + image.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(image.data)
        return place

    def original(self, text: str) -> str:
        """A text with the paths that the images have at home."""
        return text.replace(self.added, "") if self.added else text

    def clear(self) -> None:
        """Remove the files of the last chunk."""
        if self.folder is not None:
            shutil.rmtree(self.folder)
            self.folder = None


def send(data: Dataset, put: Callable[[list[Any]], Any], fetch: Callable[[Any], list[Any]]) -> SentData:
    """Read all images of a dataset and put them away, block by block."""
    names, labels = columns(data.examples)
    starts = range(0, len(data), CLASSIFIED_AT_ONCE)
    blocks = [put([image_of(data, i) for i in range(s, min(s + CLASSIFIED_AT_ONCE, len(data)))]) for s in starts]
    keys = ("name", "split", "classes", "prompts", "numbers", "multilabel", "note")
    return SentData({key: getattr(data, key) for key in keys}, list(names), list(labels), blocks, fetch)


def image_of(data: Dataset, number: int) -> Any:
    try:
        image = data.examples[number].image
    except ValueError as error:
        return Unreadable(str(error))
    if not isinstance(image, str | os.PathLike):
        return image
    path = os.fspath(image)
    kept = os.path.abspath(path) if os.pardir in Path(path).parts else path
    try:
        return SentFile(kept, Path(path).read_bytes())
    except OSError as error:
        return Unreadable(f"cannot read {path} as an image: {error}")

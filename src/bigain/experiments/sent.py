"""The images of an experiment, sent through a cluster in blocks; a node fetches those of the chunk it works on."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bigain.cluster.parcels import Landing, SentFile, read_file
from bigain.data import Dataset
from bigain.data.dataset import LazyExamples, columns
from bigain.experiments.chunks import CLASSIFIED_AT_ONCE


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
    landing: Landing = field(default_factory=Landing)

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
        return self.landing.write(image) if isinstance(image, SentFile) else image


def send(data: Dataset, put: Callable[[list[Any]], Any], fetch: Callable[[Any], list[Any]]) -> SentData:
    """Read all images of a dataset and put them away, block by block."""
    names, labels = columns(data.examples)
    starts = range(0, len(data), CLASSIFIED_AT_ONCE)
    blocks = [put([image_of(data, i) for i in range(s, min(s + CLASSIFIED_AT_ONCE, len(data)))]) for s in starts]
    keys = ("name", "split", "classes", "prompts", "numbers", "multilabel", "note")
    return SentData({key: getattr(data, key) for key in keys}, list(names), list(labels), blocks, fetch)


def image_of(data: Dataset, number: int) -> Any:
    """An image as it travels: the bytes of a file, anything else as it is."""
    try:
        image = data.examples[number].image
        return read_file(image) if isinstance(image, str | os.PathLike) else image
    except OSError as error:
        return Unreadable(f"cannot read {error.filename} as an image: {error}")
    except ValueError as error:
        return Unreadable(str(error))

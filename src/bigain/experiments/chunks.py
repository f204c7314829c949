"""How an experiment is cut into chunks, what computing one gives, and what the runner needs of a place for results.

A chunk is some images under one setting, always the same ones, so that its results are the same bits whoever computes
it and whether or not the run was interrupted.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bigain.experiments.experiment import Experiment
from bigain.experiments.rows import DecisionRow, GeneratedRow
from bigain.experiments.setting import Setting

CLASSIFIED_AT_ONCE = 16
GENERATED_AT_ONCE = 25
SIZES = {"classify": CLASSIFIED_AT_ONCE, "generate": GENERATED_AT_ONCE}
SHARD = re.compile(r"(\d+)/(\d+)")


class Chunk(NamedTuple):
    """Images `first` to `last` of one setting, for one task."""

    task: str
    setting: Setting
    first: int
    last: int
    number: int  # of the chunk in the experiment: the byte of the lock file that stands for it

    @property
    def text(self) -> str:
        """What it is, for people: `classify images 16 to 31 of tome, ratio 0.7`."""
        return f"{self.task} images {self.first} to {self.last - 1} of {self.setting.label}"


class ChunkResult(NamedTuple):
    """What computing a chunk gives: rows for the record, and pictures as PNG in the order of their rows."""

    decisions: Sequence[DecisionRow] = ()
    skipped: dict[str, str] = {}  # noqa: RUF012 - never changed
    generated: Sequence[GeneratedRow] = ()
    pictures: Sequence[bytes] = ()


class ChunkStore(Protocol):
    """Where results go. Several runners may share one: a chunk that is claimed is nobody else's until it is released,
    or until its runner has died."""

    def done(self, chunk: Chunk) -> bool:
        """Whether all results of a chunk are there."""

    def claim(self, chunk: Chunk) -> bool:
        """Claim a chunk; False if another runner has it."""

    def release(self, chunk: Chunk) -> None:
        """Give a claimed chunk back, done or not."""

    def put(self, chunk: Chunk, result: ChunkResult) -> None:
        """Write all results of a chunk or none; a second time changes nothing."""


class Shard(NamedTuple):
    """A share of the chunks: number `part` of `parts`, from 1."""

    part: int
    parts: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """`3/8` -> Shard(3, 8)."""
        match = SHARD.fullmatch(text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"a shard must be its number and how many there are, from 1/8 to 8/8, got {text!r}")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.part}/{self.parts}"


def total(experiment: Experiment, task: str, setting: Setting) -> int:
    """How many images a setting classifies or generates."""
    if task not in setting.tasks:
        return 0
    return setting.n if task == "classify" else experiment.generate.count  # type: ignore[union-attr]


def all_chunks(experiment: Experiment, shard: Shard | None = None) -> list[Chunk]:
    """The chunks of an experiment or of a share of it, ordered so that all settings advance together.

    Shares take the chunks of each setting in turn, so that settings of different cost are spread evenly.
    """
    found: list[tuple[str, Setting, int, int]] = []
    taken: set[tuple[str, str, int]] = set()
    for task, size in SIZES.items():
        for place, setting in enumerate(experiment.settings):
            images = total(experiment, task, setting)
            for turn, first in enumerate(range(0, images, size)):
                found.append((task, setting, first, min(first + size, images)))
                if shard is None or (turn + place) % shard.parts == shard.part - 1:
                    taken.add((task, setting.label, first))
    found.sort(key=lambda chunk: (chunk[2], chunk[0]))
    chunks = [Chunk(*chunk, number) for number, chunk in enumerate(found)]
    return [chunk for chunk in chunks if (chunk.task, chunk.setting.label, chunk.first) in taken]

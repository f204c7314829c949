"""A run's folder: the record, the generated images, and a lock file for the processes that share the work."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from bigain.experiments.chunks import Chunk, ChunkResult
from bigain.experiments.setting import Setting
from bigain.experiments.store import Store

FILE = "results.sqlite"
LOCK = "lock"


class Claims:
    """Bytes of one file, each locked by one process; the system releases them when the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: BinaryIO | None = None  # one only: closing any would let go of all locks of the process

    def claim(self, number: int) -> bool:
        """Lock a byte if no other process has."""
        import fcntl  # not on Windows, where the rest of the package does not need it

        if self.file is None:
            self.file = self.path.open("a+b")
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            return False
        return True

    def release(self, number: int) -> None:
        import fcntl

        if self.file is not None:
            fcntl.lockf(self.file, fcntl.LOCK_UN, 1, number)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


@dataclass
class RunFolder:
    """The `ChunkStore` of a folder on a local disk."""

    folder: Path
    store: Store
    ids: dict[str, int]  # of settings, by label
    names: Sequence[str]  # of the images to classify, in their order
    claims: Claims = field(init=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.folder / LOCK)

    def close(self) -> None:
        self.claims.close()
        self.store.close()

    def done(self, chunk: Chunk) -> bool:
        setting = self.ids[chunk.setting.label]
        if chunk.task == "generate":
            return self.store.has_generated(setting, chunk.first, chunk.last)
        return self.store.has_decisions(setting, self.names[chunk.first : chunk.last])

    def claim(self, chunk: Chunk) -> bool:
        return self.claims.claim(chunk.number)

    def release(self, chunk: Chunk) -> None:
        self.claims.release(chunk.number)

    def put(self, chunk: Chunk, result: ChunkResult) -> None:
        setting = self.ids[chunk.setting.label]
        if chunk.task == "classify":
            self.store.add_decisions(setting, result.decisions, result.skipped)
            return
        place = self.images(chunk.setting)
        place.mkdir(parents=True, exist_ok=True)
        for row, picture in zip(result.generated, result.pictures, strict=True):
            write_whole(place / picture_name(row.number), picture)
        self.store.add_generated(setting, result.generated)

    def images(self, setting: Setting) -> Path:
        """The folder of a setting's generated images."""
        return images_of(self.folder, self.ids[setting.label])


def images_of(folder: Path, setting: int) -> Path:
    return folder / "images" / str(setting)


def picture_name(number: int) -> str:
    return f"{number:06d}.png"


def write_whole(path: Path, data: bytes) -> None:
    """Write to a temporary file, then rename, so that a kill never leaves half a file."""
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise

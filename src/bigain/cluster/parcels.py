"""Files that travel through the cluster: put into its object store once, and fetched by each node that needs them."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import ModuleType
from typing import Any, NamedTuple

PART = 64 * 2**20  # bytes of an object; large files are several
MODEL_FILES = (".safetensors", ".json", ".txt", ".model")  # weights, configurations, vocabularies; nothing pickled


class Parcel(NamedTuple):
    """A folder's files by name, each as references to its parts."""

    files: dict[str, list[Any]]


def pack(ray: ModuleType, folder: Path, endings: Sequence[str] = MODEL_FILES) -> Parcel:
    """Put all files of a folder with these endings into the object store."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in endings and path.is_file())
    return Parcel({str(path.relative_to(folder)): [ray.put(part) for part in parts(path)] for path in paths})


def parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(PART):
            yield data


class SentFile(NamedTuple):
    """A file: its path where it was read, and its bytes."""

    path: str
    data: bytes


def read_file(path: str | os.PathLike[str]) -> SentFile:
    """A file as it travels; paths that go up would leave the folder where it is written again."""
    text = os.fspath(path)
    return SentFile(os.path.abspath(text) if os.pardir in Path(text).parts else text, Path(text).read_bytes())


class Landing:
    """A temporary folder in which sent files have the paths that they have at home."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.added = ""  # what stands before the paths at home

    def write(self, file: SentFile) -> Path:
        if self.folder is None:
            self.folder = mkdtemp(prefix="bigain-files-")
        self.added = self.folder if os.path.isabs(file.path) else self.folder + os.sep
        place = Path(self.added + file.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
        return place

    def original(self, text: str) -> str:
        """A text with the paths at home."""
        return text.replace(self.added, "") if self.added else text

    def clear(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder)
            self.folder = None


@contextmanager
def unpacked(ray: ModuleType, parcel: Parcel) -> Iterator[Path]:
    """The folder again, inside the `with` block."""
    with TemporaryDirectory(prefix="bigain-") as place:
        for name, references in parcel.files.items():
            target = Path(place) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                for reference in references:
                    file.write(ray.get(reference))
        yield Path(place)

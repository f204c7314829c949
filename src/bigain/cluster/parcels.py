"""Files that travel through the cluster: put into its object store once, and fetched by each node that needs them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
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

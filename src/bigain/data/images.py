"""Find image files: the one place that decides what is used, and what is left out and why."""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

KINDS = {
    stat.S_IFIFO: "a named pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
    stat.S_IFDIR: "a folder, not a file",
}
Place = tuple[int, int]  # device and inode: what a folder is, whatever its name


class Found(NamedTuple):
    """Image files, and the reason for each path that was left out."""

    images: list[Path]
    left_out: dict[str, str]


def find_images(words: Sequence[str]) -> Found:
    """Files, folders (recursively) and globs -> unique image files, sorted within each argument."""
    images: dict[str, Path] = {}
    left_out: dict[str, str] = {}
    for word in words:
        for path in meant(word):
            found = walk(path) if path.is_dir() else one_file(path)
            left_out.update(found.left_out)
            for file in found.images:
                images.setdefault(os.path.realpath(file), file)
    if not images and not left_out:
        raise ValueError(
            f"no images in {', '.join(words)}; looked for .png, .jpg, .jpeg, .webp, .bmp, .tif and other "
            "formats that Pillow reads"
        )
    return Found(list(images.values()), left_out)


def meant(word: str) -> list[Path]:
    """An existing path, otherwise a glob: file names may contain brackets."""
    if os.path.lexists(word):
        return [Path(word)]
    paths = [Path(found) for found in sorted(glob.glob(word, recursive=True))]
    if not paths:
        raise FileNotFoundError(f"no file or folder matches {word!r}")
    return paths


def one_file(path: Path) -> Found:
    reason = no_file(path)
    return Found([path], {}) if reason is None else Found([], {str(path): reason})


def walk(folder: Path) -> Found:
    """All image files below a folder, sorted, following links; hidden files and folders are ignored."""
    found = Found([], {})
    endings = readable_endings()
    for path in below(folder, found.left_out):
        if path.suffix.lower() in endings:
            reason = no_file(path)
            if reason is None:
                found.images.append(path)
            else:
                found.left_out[str(path)] = reason
    found.images.sort()
    return found


def below(folder: Path, left_out: dict[str, str]) -> Iterator[Path]:
    """All files; each folder is entered once, however many links lead to it."""
    seen: set[Place] = set()
    ahead: list[tuple[Path, frozenset[Place]]] = [(folder, frozenset())]  # folders, and those around each
    while ahead:
        here, around = ahead.pop()
        try:
            status = os.stat(here)
            place = (status.st_dev, status.st_ino)
            if place in around:
                left_out[str(here)] = "a link to a parent folder"
            if place in seen:
                continue
            seen.add(place)
            with os.scandir(here) as entries:
                names = sorted((entry.name, is_folder(entry)) for entry in entries if not entry.name.startswith("."))
        except OSError as error:
            left_out[str(here)] = f"cannot be read: {error.strerror}"
            continue
        yield from (here / name for name, enter in names if not enter)
        ahead += [(here / name, around | {place}) for name, enter in reversed(names) if enter]


def is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def no_file(path: Path) -> str | None:
    """Why a path is not a readable file, such as a named pipe, on which reading would wait forever."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        return "a broken link" if path.is_symlink() else "no longer exists"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None if kind == stat.S_IFREG else KINDS.get(kind, "not a file")


def readable_endings() -> set[str]:
    """Endings such as .jpg and .png of the formats that can be read."""
    return {ending for ending, kind in Image.registered_extensions().items() if kind in Image.OPEN}

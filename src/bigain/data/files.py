"""Where the files of datasets are, and the errors if they are missing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bigain.registry import miss

SHOWN = 8  # missing files that an error names


@dataclass(frozen=True)
class Home:
    """Where the official files of a dataset are expected, and their layout."""

    title: str
    variable: str  # the environment variable that may name the folder
    places: tuple[str, ...]  # looked at where neither the caller nor the variable names a folder
    layout: str  # for the error: what is expected, and where to get it

    def find(self, root: str | Path | None, *choices: Sequence[str]) -> list[Path]:
        """The files of the first complete choice, in the first folder that has one."""
        asked = root or os.environ.get(self.variable)
        places = [Path(place).expanduser() for place in ([asked] if asked else self.places)]
        gaps = []
        for place in places:
            for choice in choices:
                missing = [name for name in choice if not (place / name).exists()]
                if not missing:
                    return [place / name for name in choice]
                if len(missing) < len(choice):
                    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
                    gaps.append(f" ({place} lacks {', '.join(missing[:SHOWN])}{more})")
        raise self.lost(*places, gap=gaps[0] if gaps else "")

    def lost(self, *places: Path, gap: str = "") -> FileNotFoundError:
        """The error that explains the layout."""
        return FileNotFoundError(
            f"no {self.title} in {', '.join(map(str, places))}{gap}: expected {self.layout}; "
            f"pass the folder as root= or set {self.variable}"
        )


def check_split(title: str, split: str, splits: Sequence[str]) -> None:
    if split not in splits:
        raise ValueError(miss(f"{title} split", split, tuple(splits)))


def listed(folder: Path, names: Sequence[str], source: Path) -> list[Path]:
    """Paths of the files that `source` lists; an error names the first that is missing. Each folder is read once."""
    paths = [folder / name for name in names]
    there = {parent: set(os.listdir(parent)) if parent.is_dir() else set() for parent in {p.parent for p in paths}}
    missing = [path for path in paths if path.name not in there[path.parent]]
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of the {len(paths)} images that {source} lists are missing, first {missing[0]}; "
            "unpack the images again, or remove them from the list"
        )
    return paths

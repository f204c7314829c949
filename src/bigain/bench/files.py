"""Classify image files: finding them, reading what can be read, and reporting."""

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigain.bench.results import Result
from bigain.data.images import Found, no_file, walk

if TYPE_CHECKING:
    from bigain.classify.classifier import DiffusionClassifier
    from bigain.classify.decision import Decision
    from bigain.metrics.intervals import Share


def find_images(words: Sequence[str]) -> Found:
    """Files, folders (all the way down) and globs -> image files, sorted within each word, each once."""
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
            f"no images in {', '.join(words)}; looked for .png, .jpg, .jpeg, .webp, .bmp, .tif and all else that "
            "Pillow reads"
        )
    return Found(list(images.values()), left_out)


def meant(word: str) -> list[Path]:
    """A name may have brackets in it, so it is a glob only where there is no such file."""
    if os.path.lexists(word):
        return [Path(word)]
    paths = [Path(found) for found in sorted(glob.glob(word, recursive=True))]
    if not paths:
        raise FileNotFoundError(f"no file, folder or glob {word!r}")
    return paths


def one_file(path: Path) -> Found:
    reason = no_file(path)
    return Found([path], {}) if reason is None else Found([], {str(path): reason})


def classify_files(
    classifier: "DiffusionClassifier", files: Sequence[Path], unreadable: Callable[[str, str], None]
) -> Iterator[tuple[int, Result]]:
    """(number, result) as they are decided; `unreadable` is told the path and the reason of each other file."""
    from bigain.bench.subjects import by_folder

    folders = by_folder(classifier.classes)
    names = [str(name) for name in classifier.classes]
    found = classifier.stream(files, lambda number, error: unreadable(str(files[number]), str(error)))
    try:
        for number, decision in found:
            path = files[number]
            yield number, result(path, decision, names, folders.get(path.parent.name))
    except FloatingPointError as error:
        raise FloatingPointError(re.sub(r"^image (\d+)", lambda m: str(files[int(m[1])]), str(error))) from error


def result(path: Path, decision: "Decision", names: list[str], truth: str | None) -> Result:
    chances = decision.probabilities
    return Result(
        path=str(path),
        label=str(decision.label),
        probability=float(chances[decision.index]),
        margin=decision.margin,
        margin_error=decision.margin_error,
        evaluations=decision.evaluations,
        top=[(names[k], float(chances[k])) for k in decision.ranking],
        truth=truth,
    )


class Tally:
    """How many images are done, and how many of those whose folder names their class are right."""

    def __init__(self) -> None:
        self.done, self.known, self.hits = 0, 0, 0

    def add(self, result: Result) -> None:
        self.done += 1
        self.known += result.truth is not None
        self.hits += result.truth is not None and result.label == result.truth

    def accuracy(self) -> "Share | None":
        """The share of right labels among the files whose folder names their class."""
        from bigain.metrics.intervals import wilson

        return wilson(self.hits, self.known) if self.known else None


def as_json(results: Sequence[Result], unreadable: dict[str, str], tally: Tally) -> dict[str, Any]:
    share = tally.accuracy()
    return {
        "results": [result._asdict() for result in results],
        "unreadable": unreadable,
        "accuracy": None if share is None else {**share._asdict(), "value": share.value},
    }

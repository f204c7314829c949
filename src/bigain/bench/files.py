"""Classify image files: finding them, reading what can be read, and reporting."""

import csv
import glob
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from bigain.bench.subjects import by_folder
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.classify.images import to_tensor
from bigain.metrics.intervals import Share, wilson

ENDINGS = set(Image.registered_extensions())


class ImageFile(NamedTuple):
    """A file, and its class where the folder around it is named after one."""

    path: Path
    truth: str | None


class Result(NamedTuple):
    """One classified file, ready for a table, JSON or CSV."""

    path: str
    label: str
    probability: float
    margin: float
    margin_error: float
    evaluations: int
    top: list[tuple[str, float]]
    truth: str | None


def find_images(words: Sequence[str], classes: Sequence[str | int]) -> list[ImageFile]:
    """Files, folders (all the way down) and globs -> image files, sorted within each word, each once."""
    found: dict[Path, ImageFile] = {}
    names = by_folder(classes)
    for word in words:
        literal = [Path(word)]  # a name may have brackets in it
        paths = (
            literal if literal[0].exists() else [Path(p) for p in sorted(glob.glob(word, recursive=True))] or literal
        )
        for path in paths:
            if not path.exists():
                raise FileNotFoundError(f"no file, folder or glob {word!r}")
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS) if path.is_dir() else [path]
            for file in inside:
                found.setdefault(file.resolve(), ImageFile(file, names.get(file.parent.name)))
    if not found:
        raise ValueError(
            f"no images in {', '.join(words)}; looked for .png, .jpg, .jpeg, .webp, .bmp, .tif and all else that "
            "Pillow reads"
        )
    return list(found.values())


def classify_files(
    classifier: DiffusionClassifier, files: Sequence[ImageFile], progress: Callable[[Decision], None] | None = None
) -> tuple[list[Result], dict[str, str]]:
    """Results of the readable files, and the reason for each that was not."""
    pictures, readable, unreadable = [], [], {}
    for file in files:
        try:
            pictures.append(to_tensor(file.path, classifier.denoiser.frame))
            readable.append(file)
        except ValueError as error:
            unreadable[str(file.path)] = str(error)
    decisions = classifier(pictures, progress)
    names = [str(name) for name in classifier.classes]
    results = [result(file, decision, names) for file, decision in zip(readable, decisions, strict=True)]
    return results, unreadable


def result(file: ImageFile, decision: Decision, names: list[str]) -> Result:
    chances = decision.probabilities
    return Result(
        path=str(file.path),
        label=str(decision.label),
        probability=float(chances[decision.index]),
        margin=decision.margin,
        margin_error=decision.margin_error,
        evaluations=decision.evaluations,
        top=[(names[k], float(chances[k])) for k in decision.ranking],
        truth=file.truth,
    )


def accuracy_of(results: Sequence[Result]) -> Share | None:
    """The share of right labels among the files whose folder names their class."""
    known = [r for r in results if r.truth is not None]
    return wilson(sum(r.label == r.truth for r in known), len(known)) if known else None


def write_csv(path: Path, results: Sequence[Result], top: int) -> None:
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:  # names that are no UTF-8
        writer = csv.writer(file)
        writer.writerow(["path", "label", "probability", "margin", "margin_error", "evaluations", "top", "truth"])
        for r in results:
            ranked = json.dumps(r.top[:top])
            writer.writerow([*r[:6], ranked, r.truth or ""])


def as_json(results: Sequence[Result], unreadable: dict[str, str], top: int) -> dict[str, Any]:
    share = accuracy_of(results)
    return {
        "results": [r._replace(top=r.top[:top])._asdict() for r in results],
        "unreadable": unreadable,
        "accuracy": None if share is None else {**share._asdict(), "value": share.value},
    }

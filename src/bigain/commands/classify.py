"""Classify image files: load, compress, decide file by file, and count."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.commands.request import (
    CORRECT,
    ClassifyRequest,
    attached,
    given_names,
    is_file,
    model_names,
    parse_timesteps,
)
from bigain.commands.results import Result
from bigain.denoisers.base import Denoiser, share_weights
from bigain.experiments.subjects import by_folder
from bigain.loading import best_dtype, load_denoiser
from bigain.metrics.intervals import Share, wilson
from bigain.profile import TimestepProfile


def classify_each(
    images: Sequence[Path], request: ClassifyRequest, unreadable: Callable[[str, str], None]
) -> Iterator[tuple[int, Result]]:
    """Yield (number, result) of readable images as they are decided; `unreadable` gets the others."""
    denoiser = load_denoiser(
        request.model, device=request.device, dtype=best_dtype(request.device), image_size=request.image_size
    )
    with open_classifier(denoiser, request, read_given(request)) as classifier:
        yield from classify_files(classifier, images, unreadable)


class Given(NamedTuple):
    """What a request says in files of this machine, or in words."""

    names: list[str] | None
    timesteps: Any


def read_given(request: ClassifyRequest) -> Given:
    timesteps = request.timesteps
    profile = TimestepProfile.load(Path(timesteps)) if timesteps is not None and is_file(timesteps) else None
    return Given(given_names(request.classes), profile or parse_timesteps(timesteps))


@contextmanager
def open_classifier(denoiser: Denoiser, request: ClassifyRequest, given: Given) -> Iterator[DiffusionClassifier]:
    """The classifier of a request, compressed inside the `with` block."""
    names, timesteps = model_names(denoiser, given.names), given.timesteps
    final = share_weights(denoiser) if request.final_operator else None
    classifier = DiffusionClassifier(
        denoiser, names, request.policy, prompts=request.prompts, timesteps=timesteps, seed=request.seed, final=final
    )
    with (
        attached(denoiser, request.compression, groups="input", correct=CORRECT),
        attached(final or denoiser, request.final, groups="input", correct=CORRECT),
    ):
        yield classifier


def classify_files(
    classifier: DiffusionClassifier, files: Sequence[Path], unreadable: Callable[[str, str], None]
) -> Iterator[tuple[int, Result]]:
    """Yield (number, result) as images are decided; `unreadable` gets the path and the error of each other file."""
    folders = by_folder(classifier.classes)
    names = [str(name) for name in classifier.classes]
    found = classifier.stream(files, lambda number, error: unreadable(str(files[number]), str(error)))
    try:
        for number, decision in found:
            path = files[number]
            yield number, result(path, decision, names, folders.get(path.parent.name))
    except FloatingPointError as error:
        raise FloatingPointError(re.sub(r"^image (\d+)", lambda m: str(files[int(m[1])]), str(error))) from error


def result(path: Path, decision: Decision, names: list[str], truth: str | None) -> Result:
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
    """Counts of classified images, and of correct ones among those in folders named after classes."""

    def __init__(self) -> None:
        self.done, self.known, self.hits = 0, 0, 0

    def add(self, result: Result) -> None:
        self.done += 1
        self.known += result.truth is not None
        self.hits += result.truth is not None and result.label == result.truth

    def accuracy(self) -> Share | None:
        """Accuracy on the files in folders named after classes."""
        return wilson(self.hits, self.known) if self.known else None


def as_json(results: Sequence[Result], unreadable: dict[str, str], tally: Tally) -> dict[str, Any]:
    share = tally.accuracy()
    return {
        "results": [result._asdict() for result in results],
        "unreadable": unreadable,
        "accuracy": None if share is None else {**share._asdict(), "value": share.value},
    }

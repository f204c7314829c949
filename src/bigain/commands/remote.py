"""What a worker of a cluster holds for `bigain classify` and `bigain generate`."""

import io
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.engine import out_of_memory
from bigain.cluster.parcels import Landing, Parcel, SentFile
from bigain.commands.classify import Given, classify_files, open_classifier
from bigain.commands.request import ClassifyRequest, GenerateRequest, attached, cached, model_names, weights_of
from bigain.commands.results import Result
from bigain.denoisers.base import Denoiser
from bigain.generation import Sampling, generate, usual_batch
from bigain.pictures import to_picture
from bigain.sending import Code, load_code, load_sent


class Decided(NamedTuple):
    """Results of some files by their numbers, and reasons for those that could not be read."""

    results: list[tuple[int, Result]]
    unreadable: list[tuple[str, str]]


@dataclass(frozen=True)
class Needs:
    """What both commands send to a node."""

    code: Code
    weights: str | None  # what a model in a folder must hash to
    model: Parcel | None = None

    def load(self, request: ClassifyRequest | GenerateRequest) -> Denoiser:
        load_code(self.code)
        return load_sent(request.model, request.device, request.image_size, self.model)

    def check(self, request: ClassifyRequest | GenerateRequest) -> None:
        if self.model is None and weights_of(request.model) != self.weights:
            raise ValueError(f"has another model in {request.model}; copy it there, or use --send")


@dataclass(frozen=True)
class ClassifyRecipe:
    """Makes a worker of `bigain classify`."""

    request: ClassifyRequest
    needs: Needs
    given: Given

    def __call__(self) -> "RemoteClassifier":
        classifier = open_classifier(self.needs.load(self.request), self.request, self.given)
        return RemoteClassifier(ExitStack().enter_context(classifier), self)  # open for the life of the worker


@dataclass
class RemoteClassifier:
    """Classifies some files at a time."""

    classifier: DiffusionClassifier
    recipe: ClassifyRecipe

    def check(self) -> None:
        self.recipe.needs.check(self.recipe.request)

    def compute(self, files: Sequence[Path | SentFile]) -> Decided:
        landing, unreadable = Landing(), []
        try:
            paths = [landing.write(file) if isinstance(file, SentFile) else file for file in files]
            found = classify_files(self.classifier, paths, lambda path, reason: unreadable.append((path, reason)))
            home = landing.original
            results = [(number, result._replace(path=home(result.path))) for number, result in found]
            return Decided(results, [(home(path), home(reason)) for path, reason in unreadable])
        finally:
            landing.clear()

    def halve(self) -> None:
        self.classifier.batch_size = max(1, self.classifier.batch_size // 2)


class Wanted(NamedTuple):
    """Images `first` to `last` of those to generate."""

    first: int
    last: int


@dataclass(frozen=True)
class GenerateRecipe:
    """Makes a worker of `bigain generate`."""

    request: GenerateRequest
    sampling: Sampling
    needs: Needs
    given: list[str] | None  # prompts or classes

    def __call__(self) -> "RemoteGenerator":
        denoiser = self.needs.load(self.request)
        stack = ExitStack()  # open for the life of the worker
        stack.enter_context(attached(denoiser, self.request.compression))
        stack.enter_context(cached(denoiser, self.request.cache))
        return RemoteGenerator(denoiser, self)


@dataclass
class RemoteGenerator:
    """Generates some images at a time."""

    denoiser: Denoiser
    recipe: GenerateRecipe
    batch_size: int | None = None

    def check(self) -> None:
        self.recipe.needs.check(self.recipe.request)
        self.names()

    def names(self) -> list[str | int]:
        """The prompts or classes, which are used in turn."""
        return model_names(self.denoiser, self.recipe.given)

    def batch(self) -> int:
        """How many images go together."""
        return usual_batch(self.denoiser)

    def compute(self, wanted: Wanted) -> list[bytes]:
        """The images as PNG."""
        names = self.names()
        chosen = [names[i % len(names)] for i in range(wanted.first, wanted.last)]
        while True:
            try:
                images = generate(
                    self.denoiser, chosen, self.recipe.sampling, first=wanted.first, batch_size=self.batch_size
                )
                return [encoded(image) for image in images]
            except RuntimeError as error:  # torch's OutOfMemoryError is one
                if not out_of_memory(error) or self.batch_size == 1:
                    raise
                self.halve()

    def halve(self) -> None:
        self.batch_size = max(1, (self.batch_size or self.batch()) // 2)


def encoded(image: object) -> bytes:
    data = io.BytesIO()
    to_picture(image).save(data, "PNG")  # type: ignore[arg-type]
    return data.getvalue()

"""Compute the chunks of an experiment: the model with what is attached to it, and nothing of where results go."""

import hashlib
import io
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from PIL import Image
from torch import Tensor, nn

from bigain.caching import cache
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.classify.engine import out_of_memory
from bigain.classify.images import to_tensor
from bigain.compression import Handle, compress
from bigain.data import Dataset, Example
from bigain.denoisers.base import Denoiser
from bigain.denoisers.sampling import make_scheduler
from bigain.experiments import pruning
from bigain.experiments.chunks import Chunk, ChunkResult
from bigain.experiments.decisive import decision_words
from bigain.experiments.experiment import Experiment
from bigain.experiments.rows import DecisionRow, GeneratedRow
from bigain.experiments.setting import Setting
from bigain.experiments.subjects import class_conditions, subjects
from bigain.generation import generate, usual_batch
from bigain.metrics.distances import INCEPTION
from bigain.pictures import to_picture
from bigain.pruning import Gated, Pruned, SequentialClassifier
from bigain.pruning.methods import parse_method
from bigain.pruning.parts import check_prunable
from bigain.zoo.catalog import folder_of

EXAMPLES = 20  # generated images whose pixels are kept in the record


@dataclass
class Computer:
    """Computes chunks with a model that is loaded once.

    Where memory runs out, the batch of the task is halved and stays so for this model, which changes no result.
    """

    experiment: Experiment
    denoiser: Denoiser
    data: Dataset  # as many as the largest n, in the order of the seed
    classified_at_once: int | str = "auto"
    generated_at_once: int | None = None
    fitted: dict[str, Pruned | Gated] = field(default_factory=dict)  # by method

    def compute(self, chunk: Chunk, wanted: Sequence[str | int] | None = None) -> ChunkResult:
        """The results of a chunk. `wanted` is what to generate, by default what the data say."""
        try:
            with (
                pruning.attach(self.denoiser.network, self.pruned(chunk.setting)),
                attached(self.denoiser.network, chunk.setting),
            ):
                return self._classify(chunk) if chunk.task == "classify" else self._generate(chunk, wanted)
        except FloatingPointError as error:
            what = f"cannot {chunk.task} images {chunk.first} to {chunk.last - 1}: {error}"
            raise ValueError(
                f"{chunk.setting.label}: {what}. Nothing was recorded for them; check the weights and the operator, "
                "or remove the row"
            ) from error

    def pruned(self, setting: Setting) -> Pruned | Gated | None:
        """What is pruned in a setting, fitted when it is first asked for: the same images give the same bits."""
        method = setting.prune
        if method is None:
            return None
        if method not in self.fitted:
            experiment = self.experiment
            self.fitted[method] = pruning.fit(self.denoiser, method, experiment.calibration, experiment.seed)
        return self.fitted[method]

    def subjects(self, chunk: Chunk) -> list[str | int]:
        """What a chunk generates."""
        wanted = self.experiment.generate
        assert wanted is not None  # checked when the file was read
        return subjects(self.denoiser, self.data, wanted.count)[chunk.first : chunk.last]

    def _classify(self, chunk: Chunk) -> ChunkResult:
        images, examples, skipped = [], [], {}
        for i in range(chunk.first, chunk.last):
            try:
                example = self.data.examples[i]
                images.append(to_tensor(example.image, self.denoiser.image_spec))
                examples.append(example)
            except ValueError as error:
                skipped[self.data.names[i]] = str(error)
        classifier = new_classifier(self.experiment, self.denoiser, self.data, chunk.setting, self.classified_at_once)
        usual = classifier.batch_size
        started = time.perf_counter()
        try:
            decisions = classifier(images) if images else []
        except FloatingPointError as error:
            raise FloatingPointError(with_name(str(error), [example.name for example in examples])) from error
        finally:
            if classifier.batch_size < usual:
                self.classified_at_once = classifier.batch_size
        seconds = (time.perf_counter() - started) / max(1, sum(d.evaluations for d in decisions))
        pairs = zip(examples, decisions, strict=True)
        return ChunkResult([decision_row(example, d, seconds) for example, d in pairs], skipped)

    def _generate(self, chunk: Chunk, wanted: Sequence[str | int] | None) -> ChunkResult:
        named = self.subjects(chunk) if wanted is None else wanted
        started = time.perf_counter()
        images = self._images(chunk, named)
        check_images(images, chunk.first)
        seconds = (time.perf_counter() - started) / len(named)
        rows, pictures = [], []
        for i, (subject, image) in enumerate(zip(named, images, strict=True), start=chunk.first):
            picture = to_picture(image)
            data = png(picture)
            digest = hashlib.sha256(picture.tobytes()).hexdigest()
            pictures.append(data)
            rows.append(GeneratedRow(i, str(subject), digest, data if i < EXAMPLES else None, seconds))
        return ChunkResult(generated=rows, pictures=pictures)

    def _images(self, chunk: Chunk, named: Sequence[str | int]) -> Tensor:
        wanted = self.experiment.generate
        assert wanted is not None
        sampling = wanted.sampling(self.experiment.seed, chunk.setting.num_inference_steps)
        together = chunk.setting.cache is not None and chunk.setting.cache.data_dependent  # the batch decides
        while True:
            size = usual_batch(self.denoiser)
            size = size if together else self.generated_at_once or size
            try:
                return generate(self.denoiser, named, sampling, first=chunk.first, batch_size=size)
            except RuntimeError as error:  # torch's OutOfMemoryError is one
                if not out_of_memory(error) or size <= 1 or together:
                    raise
                self.generated_at_once = size // 2


def decision_row(example: Example, decision: Decision, seconds: float) -> DecisionRow:
    """A row of the record; `seconds` are those of one evaluation."""
    return DecisionRow(
        image=example.name, truth=example.labels, predicted=decision.index, ranking=decision.ranking,
        chances=tuple(decision.probabilities.tolist()), evaluations=decision.evaluations,
        timesteps=decision.timesteps, errors=decision.errors, seconds=seconds * decision.evaluations,
    )  # fmt: skip


def new_classifier(
    experiment: Experiment, denoiser: Denoiser, data: Dataset, setting: Setting, batch_size: int | str = "auto"
) -> DiffusionClassifier:
    classes, prompts = class_conditions(denoiser, data)
    policy, timesteps = decision_words(experiment, setting)
    shared: dict[str, Any] = {
        "prompts": prompts, "timesteps": timesteps, "seed": experiment.seed, "batch_size": batch_size
    }  # fmt: skip
    if setting.prune and parse_method(setting.prune).sequential:  # without a policy: all classes, trial after trial
        return SequentialClassifier(denoiser, classes, **shared)
    return DiffusionClassifier(denoiser, classes, policy, **shared)


def validate(experiment: Experiment, denoiser: Denoiser, data: Dataset, real: int | None = None) -> None:
    """Try everything that is used later, so that mistakes show before any work is done or recorded.

    `real` is how many real images there are to compare with; None means that this process compares nothing.
    """
    for setting in experiment.settings:
        for document in setting.shapes:
            document.check(denoiser.network)
        with attached(denoiser.network, setting):
            pass
    if any(setting.prune for setting in experiment.settings):
        check_prunable(denoiser.network)
    for setting in experiment.settings:
        if "classify" in setting.tasks:
            new_classifier(experiment, denoiser, data, setting)
    wanted = experiment.generate
    if wanted is None:
        return
    make_scheduler(wanted.scheduler or denoiser.default_scheduler, denoiser.schedule)
    if real is None:
        return
    subjects(denoiser, data, wanted.count)
    if wanted.features:
        if wanted.features != INCEPTION:
            folder_of(wanted.features)
        if 2 * wanted.count > real:
            raise ValueError(
                f"a distance of {wanted.count} generated images needs twice as many real ones, got {real} from "
                f"{data.name}; generate at most {real // 2}, or leave out features"
            )


@contextmanager
def attached(network: nn.Module, setting: Setting) -> Iterator[list[Handle]]:
    """Attach a setting's operators and its cache inside the `with` block."""
    with ExitStack() as stack:
        if setting.cache is not None:
            stack.enter_context(cache(network, setting.cache))
        yield [stack.enter_context(compress(network, compression)) for compression in setting.attach]


def with_name(text: str, names: Sequence[str]) -> str:
    """`image 3, t = 500: …` with the name of that image, where the text has its number."""
    return re.sub(r"\bimage (\d+)", lambda match: f"image {(*names, match[1])[min(int(match[1]), len(names))]}", text)


def check_images(images: Tensor, first: int) -> None:
    """Raise for NaN in (n, c, s, s), images from number `first` on: they would be saved as black images."""
    broken = (~images.isfinite()).flatten(1).any(1).nonzero().flatten().tolist()
    if broken:
        raise FloatingPointError(f"generated image {first + broken[0]} has values that are not finite")


def png(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, "PNG", optimize=True)
    return data.getvalue()

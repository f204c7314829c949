"""Run an experiment: in fixed chunks, each written down when it is done, by one process or several.

A chunk is some images under one setting, always the same ones, so that its results are the same bits whether or not
the run was interrupted. While a process works on a chunk it holds a lock that the system drops when the process
dies.
"""

import hashlib
import io
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from torch import Tensor, nn

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.images import to_tensor
from bigain.compression import Handle, compress
from bigain.data import Dataset
from bigain.denoisers.base import Denoiser
from bigain.denoisers.sampling import make_scheduler
from bigain.experiments import pruning
from bigain.experiments.decisive import decision_words, decisive
from bigain.experiments.experiment import Experiment, Setting
from bigain.experiments.machine import Watch, environment, now
from bigain.experiments.rows import DecisionRow, GeneratedRow
from bigain.experiments.store import Store
from bigain.experiments.subjects import REAL, chosen_data, class_conditions, subjects, whole_data
from bigain.generation import generate
from bigain.metrics.distances import INCEPTION
from bigain.pictures import to_picture
from bigain.pruning import Gated, Pruned, SequentialClassifier
from bigain.pruning.methods import parse_method
from bigain.pruning.parts import check_prunable
from bigain.zoo.catalog import folder_of

CLASSIFIED_AT_ONCE = 16
GENERATED_AT_ONCE = 25
EXAMPLES = 20  # generated images whose pixels are kept in the record
FILE = "results.sqlite"

Progress = Callable[["Chunk", int], None]  # a chunk was finished, here or earlier, with so many images


class Chunk(NamedTuple):
    """Images `first` to `last` of one setting, for one task."""

    task: str
    setting: Setting
    first: int
    last: int
    number: int  # of the chunk in the experiment: the byte of the lock file that stands for it


@dataclass
class Run:
    """Everything that the chunks of an experiment need."""

    experiment: Experiment
    folder: Path
    store: Store
    ids: dict[str, int]
    denoiser: Denoiser
    data: Dataset  # as many as the largest n, in the order of the seed
    fitted: dict[str, Pruned | Gated] = field(default_factory=dict)  # by the method

    @classmethod
    def start(cls, experiment: Experiment, folder: Path, denoiser: Denoiser) -> "Run":
        whole = whole_data(experiment)
        data = chosen_data(experiment, whole)
        validate(experiment, denoiser, data, min(REAL, len(whole)))
        hashes = decisive(experiment, denoiser, whole, data)
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / FILE)
        try:
            store.check_dtype(environment(denoiser)["dtype"])
            ids = store.begin(experiment, whole.identity(), hashes)
        except BaseException:
            store.close()
            raise
        return cls(experiment, folder, store, ids, denoiser, data)

    def chunks(self) -> list[Chunk]:
        """All chunks, ordered so that all settings advance together."""
        found: list[tuple[str, Setting, int, int]] = []
        for task, size in (("classify", CLASSIFIED_AT_ONCE), ("generate", GENERATED_AT_ONCE)):
            for setting in self.experiment.settings:
                total = self._total(task, setting)
                found += [(task, setting, first, min(first + size, total)) for first in range(0, total, size)]
        found.sort(key=lambda chunk: (chunk[2], chunk[0]))
        return [Chunk(*chunk, number) for number, chunk in enumerate(found)]

    def _total(self, task: str, setting: Setting) -> int:
        if task not in setting.tasks:
            return 0
        return setting.n if task == "classify" else self.experiment.generate.count  # type: ignore[union-attr]

    def done(self, chunk: Chunk) -> bool:
        setting = self.ids[chunk.setting.label]
        if chunk.task == "generate":
            return set(range(chunk.first, chunk.last)) <= self.store.made(setting)
        names = set(self.data.names[chunk.first : chunk.last])
        return names <= self.store.classified(setting) | self.store.skipped().keys()

    def work(self, chunk: Chunk) -> None:
        try:
            self._work(chunk)
        except FloatingPointError as error:
            what = f"cannot {chunk.task} images {chunk.first} to {chunk.last - 1}: {error}"
            raise ValueError(
                f"{chunk.setting.label}: {what}. Nothing was recorded for them; check the weights and the operator, "
                "or remove the row"
            ) from error

    def _work(self, chunk: Chunk) -> None:
        with (
            pruning.attach(self.denoiser.network, self.pruned(chunk.setting)),
            attached(self.denoiser.network, chunk.setting),
        ):
            if chunk.task == "classify":
                self._classify(chunk)
            else:
                self._generate(chunk)

    def _classify(self, chunk: Chunk) -> None:
        images, examples, skipped = [], [], {}
        for i in range(chunk.first, chunk.last):
            try:
                example = self.data.examples[i]
                images.append(to_tensor(example.image, self.denoiser.image_spec))
                examples.append(example)
            except ValueError as error:
                skipped[self.data.names[i]] = str(error)
        classifier = new_classifier(self.experiment, self.denoiser, self.data, chunk.setting)
        started = time.perf_counter()
        try:
            decisions = classifier(images) if images else []
        except FloatingPointError as error:
            raise FloatingPointError(with_name(str(error), [example.name for example in examples])) from error
        seconds = (time.perf_counter() - started) / max(1, sum(d.evaluations for d in decisions))
        rows = [
            DecisionRow(
                image=example.name, truth=example.labels, predicted=d.index, ranking=d.ranking,
                chances=tuple(d.probabilities.tolist()), evaluations=d.evaluations, timesteps=d.timesteps,
                errors=d.errors, seconds=seconds * d.evaluations,
            )
            for example, d in zip(examples, decisions, strict=True)
        ]  # fmt: skip
        self.store.add_decisions(self.ids[chunk.setting.label], rows, skipped)

    def _generate(self, chunk: Chunk) -> None:
        wanted = self.experiment.generate
        assert wanted is not None  # checked when the file was read
        named = subjects(self.denoiser, self.data, wanted.count)[chunk.first : chunk.last]
        started = time.perf_counter()
        sampling = wanted.sampling(self.experiment.seed, chunk.setting.num_inference_steps)
        images = generate(self.denoiser, named, sampling, first=chunk.first)
        check_images(images, chunk.first)
        seconds = (time.perf_counter() - started) / len(named)
        place = self.images(chunk.setting)
        place.mkdir(parents=True, exist_ok=True)
        rows = []
        for i, (subject, image) in enumerate(zip(named, images, strict=True), start=chunk.first):
            picture = to_picture(image)
            data = png(picture)
            write_whole(place / f"{i:06d}.png", data)
            digest = hashlib.sha256(picture.tobytes()).hexdigest()
            rows.append(GeneratedRow(i, str(subject), digest, data if i < EXAMPLES else None, seconds))
        self.store.add_generated(self.ids[chunk.setting.label], rows)

    def pruned(self, setting: Setting) -> Pruned | Gated | None:
        """What is pruned in a setting, fitted when it is first asked for: the same images give the same bits."""
        method = setting.prune
        if method is None:
            return None
        if method not in self.fitted:
            experiment = self.experiment
            self.fitted[method] = pruning.fit(self.denoiser, method, experiment.calibration, experiment.seed)
        return self.fitted[method]

    def images(self, setting: Setting) -> Path:
        """The folder of a setting's generated images."""
        return self.folder / "images" / str(self.ids[setting.label])


def new_classifier(experiment: Experiment, denoiser: Denoiser, data: Dataset, setting: Setting) -> DiffusionClassifier:
    classes, prompts = class_conditions(denoiser, data)
    policy, timesteps = decision_words(experiment, setting)
    if setting.prune and parse_method(setting.prune).sequential:  # without a policy: all classes, trial after trial
        seed = experiment.seed
        return SequentialClassifier(denoiser, classes, prompts=prompts, timesteps=timesteps, seed=seed)
    return DiffusionClassifier(denoiser, classes, policy, prompts=prompts, timesteps=timesteps, seed=experiment.seed)


def with_name(text: str, names: Sequence[str]) -> str:
    """`image 3, t = 500: …` with the name of that image, where the text has its number."""
    return re.sub(r"\bimage (\d+)", lambda match: f"image {(*names, match[1])[min(int(match[1]), len(names))]}", text)


def check_images(images: Tensor, first: int) -> None:
    """Raise for NaN in (n, c, s, s), images from number `first` on: they would be saved as black images."""
    broken = (~images.isfinite()).flatten(1).any(1).nonzero().flatten().tolist()
    if broken:
        raise FloatingPointError(f"generated image {first + broken[0]} has values that are not finite")


def validate(experiment: Experiment, denoiser: Denoiser, data: Dataset, real: int) -> None:
    """Try everything that is used later, so that mistakes show before any work is done or recorded."""
    for setting in experiment.settings:
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
    """Attach a setting's operators inside the `with` block."""
    with ExitStack() as stack:
        yield [stack.enter_context(compress(network, compression)) for compression in setting.attach]


def run_chunks(run: Run, progress: Progress | None = None, patience: float = 2.0) -> None:
    """Run all chunks that are not done; wait for those that another process runs."""
    session, watch = run.store.log_session(now(), environment(run.denoiser)), Watch()
    run.store.update_session(session, watch.summary())
    waiting: Sequence[Chunk] = run.chunks()
    while waiting:
        held = []
        for chunk in waiting:
            with try_lock(run.folder / "lock", chunk.number) as mine:
                if mine and not run.done(chunk):
                    run.work(chunk)
                    watch.look()
                    run.store.update_session(session, watch.summary())
                if not mine:
                    held.append(chunk)
                    continue
            if progress is not None:
                progress(chunk, chunk.last - chunk.first)
        if len(held) == len(waiting):
            time.sleep(patience)
        waiting = held
    run.store.end_session(session, now())


@contextmanager
def try_lock(path: Path, number: int) -> Iterator[bool]:
    """Lock one byte of a file if no other process has; the system releases it when the process ends."""
    import fcntl  # not on Windows, where the rest of the package does not need it

    with path.open("a+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            yield False
            return
        yield True  # closing the file lets go


def png(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, "PNG", optimize=True)
    return data.getvalue()


def write_whole(path: Path, data: bytes) -> None:
    """Write to a temporary file, then rename, so that a kill never leaves half a file."""
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_bytes(data)
    beside.replace(path)

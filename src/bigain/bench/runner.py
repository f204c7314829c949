"""Run an experiment: in fixed pieces, each written down when it is done, by one process or several.

A piece is some images under one setting, always the same ones, so that its results are the same bits whether or not
the run was interrupted. While a process works on a piece it holds a lock that the system drops when the process
dies.
"""

import hashlib
import io
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from torch import Tensor, nn

from bigain.backbones.denoiser import Denoiser
from bigain.backbones.sampling import make_scheduler
from bigain.bench.experiment import Experiment, Setting
from bigain.bench.fingerprints import image_hashes, weight_hashes
from bigain.bench.machine import Watch, facts, now
from bigain.bench.sources import source_hashes
from bigain.bench.store import DecisionRow, GeneratedRow, Hashes, Store
from bigain.bench.subjects import REAL, chosen_data, class_conditions, real_data, subjects, whole_data
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.images import to_tensor
from bigain.compression import Handle, compress
from bigain.data import Dataset
from bigain.generation import generate
from bigain.metrics.distances import INCEPTION
from bigain.metrics.inception import load_inception
from bigain.pictures import to_picture
from bigain.zoo.features import load_features
from bigain.zoo.shelf import folder_of

CLASSIFIED_AT_ONCE = 16
GENERATED_AT_ONCE = 25
EXAMPLES = 20  # generated images whose pixels are kept in the record
FILE = "results.sqlite"

Progress = Callable[["Piece", int], None]  # a piece was finished, here or earlier, with so many images


class Piece(NamedTuple):
    """Images `first` to `last` of one setting, for one task."""

    task: str
    setting: Setting
    first: int
    last: int
    number: int  # of the piece in the experiment: the byte of the lock file that stands for it


@dataclass
class Run:
    """All that the pieces of an experiment need."""

    experiment: Experiment
    folder: Path
    store: Store
    ids: dict[str, int]
    denoiser: Denoiser
    data: Dataset  # as many as the largest n, in the order of the seed

    @classmethod
    def start(cls, experiment: Experiment, folder: Path, denoiser: Denoiser) -> "Run":
        whole = whole_data(experiment)
        data = chosen_data(experiment, whole)
        rehearse(experiment, denoiser, data, min(REAL, len(whole)))
        hashes = decisive(experiment, denoiser, whole, data)
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / FILE)
        try:
            store.check_dtype(facts(denoiser)["dtype"])
            ids = store.begin(experiment, whole.identity(), hashes)
        except BaseException:
            store.close()
            raise
        return cls(experiment, folder, store, ids, denoiser, data)

    def pieces(self) -> list[Piece]:
        """All pieces, so ordered that all settings get on alike."""
        found: list[tuple[str, Setting, int, int]] = []
        for task, size in (("classify", CLASSIFIED_AT_ONCE), ("generate", GENERATED_AT_ONCE)):
            for setting in self.experiment.settings:
                total = self._total(task, setting)
                found += [(task, setting, first, min(first + size, total)) for first in range(0, total, size)]
        found.sort(key=lambda piece: (piece[2], piece[0]))
        return [Piece(*piece, number) for number, piece in enumerate(found)]

    def _total(self, task: str, setting: Setting) -> int:
        if task not in setting.tasks:
            return 0
        return setting.n if task == "classify" else self.experiment.generate.count  # type: ignore[union-attr]

    def done(self, piece: Piece) -> bool:
        setting = self.ids[piece.setting.label]
        if piece.task == "generate":
            return set(range(piece.first, piece.last)) <= self.store.made(setting)
        names = set(self.data.names[piece.first : piece.last])
        return names <= self.store.classified(setting) | self.store.skipped().keys()

    def work(self, piece: Piece) -> None:
        try:
            self._work(piece)
        except FloatingPointError as error:
            what = f"cannot {piece.task} images {piece.first} to {piece.last - 1}: {error}"
            raise ValueError(
                f"{piece.setting.label}: {what}. Nothing of these is recorded; look at the weights and the operator, "
                "or take the row out"
            ) from error

    def _work(self, piece: Piece) -> None:
        with attached(self.denoiser.network, piece.setting):
            if piece.task == "classify":
                self._classify(piece)
            else:
                self._generate(piece)

    def _classify(self, piece: Piece) -> None:
        images, examples, skipped = [], [], {}
        for i in range(piece.first, piece.last):
            try:
                example = self.data.examples[i]
                images.append(to_tensor(example.image, self.denoiser.frame))
                examples.append(example)
            except ValueError as error:
                skipped[self.data.names[i]] = str(error)
        classifier = new_classifier(self.experiment, self.denoiser, self.data)
        started = time.perf_counter()
        try:
            decisions = classifier(images) if images else []
        except FloatingPointError as error:
            raise FloatingPointError(with_name(str(error), [example.name for example in examples])) from error
        seconds = (time.perf_counter() - started) / max(1, sum(d.evaluations for d in decisions))
        rows = [
            DecisionRow(
                image=example.name, truth=example.labels, predicted=d.index, ranking=d.ranking,
                chances=tuple(d.probabilities.tolist()), evaluations=d.evaluations, steps=d.steps, errors=d.errors,
                seconds=seconds * d.evaluations,
            )
            for example, d in zip(examples, decisions, strict=True)
        ]  # fmt: skip
        self.store.add_decisions(self.ids[piece.setting.label], rows, skipped)

    def _generate(self, piece: Piece) -> None:
        wanted = self.experiment.generate
        assert wanted is not None  # checked when the file was read
        named = subjects(self.denoiser, self.data, wanted.count)[piece.first : piece.last]
        started = time.perf_counter()
        sampling = wanted.sampling(self.experiment.seed)
        images = generate(self.denoiser, named, sampling, first=piece.first)
        check_images(images, piece.first)
        seconds = (time.perf_counter() - started) / len(named)
        place = self.images(piece.setting)
        place.mkdir(parents=True, exist_ok=True)
        rows = []
        for i, (subject, image) in enumerate(zip(named, images, strict=True), start=piece.first):
            picture = to_picture(image)
            data = png(picture)
            write_whole(place / f"{i:06d}.png", data)
            digest = hashlib.sha256(picture.tobytes()).hexdigest()
            rows.append(GeneratedRow(i, str(subject), digest, data if i < EXAMPLES else None, seconds))
        self.store.add_generated(self.ids[piece.setting.label], rows)

    def images(self, setting: Setting) -> Path:
        """Where the generated images of a setting lie."""
        return self.folder / "images" / str(self.ids[setting.label])


def new_classifier(experiment: Experiment, denoiser: Denoiser, data: Dataset) -> DiffusionClassifier:
    classes, prompts = class_conditions(denoiser, data)
    return DiffusionClassifier(
        denoiser, classes, experiment.policy, prompts=prompts, trials=experiment.trials, seed=experiment.seed
    )


def decisive(experiment: Experiment, denoiser: Denoiser, whole: Dataset, data: Dataset) -> Hashes:
    """Hashes of all that decides results and may change behind a name: images, weights, own code."""
    tasks = {task for setting in experiment.settings for task in setting.tasks}
    sets = [data] if "classify" in tasks else []
    others: dict[str, nn.Module] = {}
    if "generate" in tasks:
        sets.append(real_data(experiment, whole))
        if experiment.generate and experiment.generate.features:
            others["features"] = feature_network(experiment.generate.features)
    return {
        "source": source_hashes(experiment),
        "image": image_hashes(sets),
        "weights": weight_hashes(denoiser, **others),
    }


def feature_network(name: str) -> nn.Module:
    """The network of a distance."""
    return load_inception() if name == INCEPTION else load_features(folder_of(name))


def with_name(text: str, names: Sequence[str]) -> str:
    """`image 3, t = 500: …` with the name of that image, where the text has its number."""
    return re.sub(r"\bimage (\d+)", lambda match: f"image {(*names, match[1])[min(int(match[1]), len(names))]}", text)


def check_images(images: Tensor, first: int) -> None:
    """(n, c, s, s), the images from number `first` on; a black picture must not stand for what is no number."""
    broken = (~images.isfinite()).flatten(1).any(1).nonzero().flatten().tolist()
    if broken:
        raise FloatingPointError(f"generated image {first + broken[0]} has values that are not finite")


def rehearse(experiment: Experiment, denoiser: Denoiser, data: Dataset, real: int) -> None:
    """Try all that is used later, so that a mistake costs no work and no folder is bound to it."""
    for setting in experiment.settings:
        with attached(denoiser.network, setting):
            pass
    if any("classify" in setting.tasks for setting in experiment.settings):
        new_classifier(experiment, denoiser, data)
    wanted = experiment.generate
    if wanted is None:
        return
    make_scheduler(wanted.scheduler or denoiser.sampler, denoiser.schedule)
    subjects(denoiser, data, wanted.count)
    if wanted.features:
        if wanted.features != INCEPTION:
            folder_of(wanted.features)
        if 2 * wanted.count > real:
            raise ValueError(
                f"a distance of {wanted.count} generated images needs twice as many real ones; {data.name} gives "
                f"{real}: generate {real // 2} at most, or leave features out"
            )


@contextmanager
def attached(network: nn.Module, setting: Setting) -> Iterator[list[Handle]]:
    """A network with all that belongs to a setting, for a while."""
    with ExitStack() as stack:
        yield [stack.enter_context(compress(network, **vars(attach))) for attach in setting.attach]


def run_pieces(run: Run, progress: Progress | None = None, patience: float = 2.0) -> None:
    """Do all pieces that are not done; those that another process holds are waited for."""
    session, watch = run.store.log_session(now(), facts(run.denoiser)), Watch()
    run.store.add_facts(session, watch.facts())
    waiting: Sequence[Piece] = run.pieces()
    while waiting:
        held = []
        for piece in waiting:
            with claimed(run.folder / "lock", piece.number) as mine:
                if mine and not run.done(piece):
                    run.work(piece)
                    watch.look()
                    run.store.add_facts(session, watch.facts())
                if not mine:
                    held.append(piece)
                    continue
            if progress is not None:
                progress(piece, piece.last - piece.first)
        if len(held) == len(waiting):
            time.sleep(patience)
        waiting = held
    run.store.end_session(session, now())


@contextmanager
def claimed(path: Path, number: int) -> Iterator[bool]:
    """Hold one byte of a lock file, if nobody else does; the system lets go of it when the process dies."""
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
    """Write beside, then rename: a kill in between leaves no half of a file."""
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_bytes(data)
    beside.replace(path)

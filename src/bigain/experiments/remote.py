"""What a worker of a cluster holds of an experiment: the model, the data, and how it shows that they are the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from bigain.checks import check_count
from bigain.cluster.parcels import Parcel
from bigain.experiments.changes import NAMED, WORDS
from bigain.experiments.chunks import Chunk, ChunkResult
from bigain.experiments.compute import Computer, validate
from bigain.experiments.experiment import build_experiment
from bigain.experiments.fingerprints import image_hashes, weight_hashes
from bigain.experiments.sent import SentData
from bigain.experiments.sources import source_hashes
from bigain.experiments.store import Hashes
from bigain.experiments.subjects import chosen_data, whole_data
from bigain.generation import usual_batch
from bigain.sending import load_code, load_sent


class Part(NamedTuple):
    """A chunk as it travels: settings by number, and what to generate."""

    task: str
    setting: int
    first: int
    last: int
    number: int
    subjects: Sequence[str | int] | None


@dataclass(frozen=True)
class Recipe:
    """All that a node needs to make its worker; called there. What was not sent is read there."""

    contents: dict[str, Any]  # of the experiment file
    code: tuple[tuple[str, bytes], ...]  # users' own files, in the order in which they ran
    hashes: Hashes  # what the images, weights and code must be
    device: str
    model: Parcel | None = None
    data: SentData | None = None

    def __call__(self) -> "RemoteComputer":
        load_code(self.code)
        experiment = build_experiment({**self.contents, "load": []})
        data = chosen_data(experiment, whole_data(experiment)) if self.data is None else self.data.dataset()
        denoiser = load_sent(experiment.model, self.device, experiment.image_size, self.model)
        return RemoteComputer(Computer(experiment, denoiser, data), self)


@dataclass
class RemoteComputer:
    """The worker's side of an experiment."""

    computer: Computer
    recipe: Recipe

    def check(self) -> None:
        """Compare images, weights and code with those of the driver, and try everything once."""
        experiment, denoiser, data = self.computer.experiment, self.computer.denoiser, self.computer.data
        compare("weights", self.recipe.hashes, weight_hashes(denoiser))
        compare("source", self.recipe.hashes, source_hashes(experiment))
        if self.recipe.data is None and self.recipe.hashes["image"]:
            compare("image", self.recipe.hashes, image_hashes([data]))
        validate(experiment, denoiser, data)

    def compute(self, part: Part) -> ChunkResult:
        setting = self.computer.experiment.settings[part.setting]
        chunk = Chunk(part.task, setting, part.first, part.last, part.number)
        try:
            result = self.computer.compute(chunk, part.subjects)
            sent = self.recipe.data
            if sent is None:
                return result
            return result._replace(skipped={name: sent.landing.original(text) for name, text in result.skipped.items()})
        finally:
            if self.recipe.data is not None:
                self.recipe.data.landing.clear()

    def halve(self) -> None:
        """Half the batch, as another worker's process ran out of memory here."""
        rows, images = self.computer.classified_at_once, self.computer.generated_at_once
        known = self.computer.denoiser.rows_at_once() if isinstance(rows, str) else rows
        batch = usual_batch(self.computer.denoiser) if images is None else images
        self.computer = replace(
            self.computer,
            classified_at_once=check_count("batch_size", max(1, known // 2)),
            generated_at_once=max(1, batch // 2),
        )


def compare(kind: str, wanted: Hashes, found: dict[str, str]) -> None:
    """Raise if what is here is not what the driver has; the driver alone has the network of a distance."""
    own = {name: value for name, value in wanted[kind].items() if not name.startswith("features")}
    names = own.keys() & found.keys() if kind == "image" else own.keys() | found.keys()
    other = sorted(name for name in names if own.get(name) != found.get(name))
    if other:
        more = f" and {len(other) - NAMED} more" if len(other) > NAMED else ""
        raise ValueError(f"has other {WORDS[kind]}: {', '.join(other[:NAMED])}{more}")

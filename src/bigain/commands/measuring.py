"""What the theory needs of a model: errors of all classes by band, and what comes back of tokens and differences.

Images are measured in chunks, under all settings each, and a chunk under a setting is kept in a file, so that a run
that was interrupted goes on where it was.
"""

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.images import to_tensor
from bigain.compression import sites
from bigain.compression.attachment import SiteEvent
from bigain.data import Dataset
from bigain.denoisers.base import Denoiser
from bigain.experiments.compute import attached
from bigain.experiments.experiment import Experiment
from bigain.experiments.fingerprints import example_hash, weight_hashes
from bigain.experiments.folder import write_whole
from bigain.experiments.setting import Setting
from bigain.experiments.sources import source_hashes
from bigain.experiments.subjects import class_conditions
from bigain.models.family import native_size
from bigain.models.site import Where
from bigain.theory.bands import band_errors, by_patch, check_bands
from bigain.theory.margins import strongest_rivals
from bigain.theory.response import exact_response, powers, there_and_back
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Pooled
from bigain.tokens.scores import as_maps

AT_ONCE = 10  # images of a chunk
IDENTITY = "measured.json"
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Measurement:
    """What is measured: an experiment's settings on its images, with all classes on evenly spaced timesteps."""

    experiment: Experiment
    trials: int = 10
    bands: int = 5
    rivals: int = 3

    def identity(self, denoiser: Denoiser) -> dict[str, Any]:
        """What decides the numbers, apart from the settings and the images."""
        asked = {key: value for key, value in self.experiment.identity().items() if key not in UNUSED}
        own = {"trials": self.trials, "bands": self.bands, "rivals": self.rivals}
        return asked | own | {"weights": weight_hashes(denoiser)}


class Chunk(NamedTuple):
    """Some images: pixels, true classes and names."""

    images: Sequence[Tensor]
    truth: np.ndarray
    names: Sequence[str]


UNUSED = ("policy", "timesteps", "generate")  # of an experiment that are not of its analysis


class TokenResponse:
    """An observer of sites that compares tokens with what is left of them, on one class of each trial."""

    def __init__(self, bands: int, finest: Grid, classes: int) -> None:
        self.bands, self.finest, self.classes = bands, finest, classes
        self.sums: Tensor | None = None
        self.pooled: Pooled | None = None  # the last plan of its kind
        self.alphas: list[float] = []

    def __call__(self, event: SiteEvent) -> None:
        if event.step != "planned":
            return
        if isinstance(event.plan, Pooled) and event.grid == self.finest:
            self.pooled, alpha = event.plan, event.plan.alpha
            self.alphas.append(alpha if isinstance(alpha, float) else float(alpha.mean()))
        back = there_and_back(event.plan, event.tokens)
        if back is None:
            return
        tokens, back = (as_maps(x[:: self.classes].float().cpu(), event.grid) for x in (event.tokens, back))
        found = powers(tokens, back, self.bands, self.spacing(event.grid))
        found = found / found[:, 0].sum().clamp_min(1e-30)  # each call counts alike, however large its tokens are
        self.sums = found if self.sums is None else self.sums + found

    def spacing(self, grid: Grid) -> int:
        return max(1, self.finest.height // grid.height)

    def exact(self) -> np.ndarray | None:
        """Gain and aliased share of pooled keys, at the mean alpha of all calls: (2, B)."""
        if self.pooled is None:
            return None
        plan = self.pooled._replace(alpha=sum(self.alphas) / len(self.alphas))  # the gain is linear in alpha
        return np.stack([part.numpy() for part in exact_response(plan, self.bands)])

    def take(self) -> np.ndarray:
        """The sums since the last call: (B, 3), NaN where no site compares tokens."""
        found, self.sums = self.sums, None
        return np.full((self.bands, 3), np.nan) if found is None else found.double().numpy()


class Measuring:
    """A model with the settings to measure; `folder` keeps what was measured, or None."""

    def __init__(self, measurement: Measurement, denoiser: Denoiser, data: Dataset, folder: Path | None) -> None:
        self.how, self.denoiser, self.data, self.folder = measurement, denoiser, data, folder
        self.settings = with_dense(measurement.experiment.settings)
        self.patch = patch_of(denoiser)
        height, width = denoiser.latent_shape[1:]
        self.grid = Grid(height // self.patch, width // self.patch)
        check_bands(measurement.bands, self.grid)
        classes, prompts = class_conditions(denoiser, data)
        policy, seed = f"exhaustive({measurement.trials})", measurement.experiment.seed
        # rivals that were chosen by the noise that they are compared on would be nearer there than they are
        self.classifier, self.chooser = (
            DiffusionClassifier(denoiser, classes, policy, prompts=prompts, timesteps="even", seed=own)
            for own in (seed, seed + 1)
        )
        if not 1 <= measurement.rivals < len(classes):
            raise ValueError(f"rivals must be from 1 to {len(classes) - 1}, got {measurement.rivals}")
        for setting in self.settings:  # mistakes show before any work is done
            with attached(denoiser.network, setting):
                pass
        self.keys = {setting.label: self.key(setting) for setting in self.settings}
        if folder is not None:
            self.open(folder)

    def open(self, folder: Path) -> None:
        """Create the folder, or check that what it keeps is of this measurement."""
        folder.mkdir(parents=True, exist_ok=True)
        path, wanted = folder / IDENTITY, self.how.identity(self.denoiser)
        text = json.dumps(wanted, indent=1, sort_keys=True) + "\n"
        if not path.exists():
            write_whole(path, text.encode())
            return
        before, now = json.loads(path.read_text()), json.loads(text)
        other = [key for key in sorted(now.keys() | before.keys()) if now.get(key) != before.get(key)]
        if other:
            raise ValueError(
                f"{folder} holds measurements of another analysis; its {', '.join(other)} differ. Use another folder, "
                "or the settings of before"
            )

    def run(self, n: int, progress: Callable[[str], None]) -> dict[str, Arrays]:
        """Arrays of each setting by label, one entry an image; `progress` is called for each image and setting."""
        parts: dict[str, list[Arrays]] = {setting.label: [] for setting in self.settings}
        for first in range(0, n, AT_ONCE):
            for label, arrays in self.chunk(first, min(first + AT_ONCE, n), progress).items():
                parts[label].append(arrays)
        return {label: {key: np.concatenate([part[key] for part in found]) for key in found[0]}
                for label, found in parts.items()}  # fmt: skip

    def chunk(self, first: int, last: int, progress: Callable[[str], None]) -> dict[str, Arrays]:
        """Images `first` to `last` under all settings: computed, or read where they were kept."""
        places = {setting.label: self.place(first, last, setting) for setting in self.settings}
        if all(place is not None and place.is_file() for place in places.values()):
            found = {label: loaded(place) for label, place in places.items() if place is not None}
            for label in found:
                for _ in range(first, last):
                    progress(label)
            return found
        examples = [self.data.examples[i] for i in range(first, last)]
        images = [to_tensor(example.image, self.denoiser.image_spec) for example in examples]
        chunk = Chunk(images, np.array([example.labels[0] for example in examples]), [e.name for e in examples])
        found = {}
        references = [Reference(rivals, None) for rivals in self.choose(chunk)]
        for number, setting in enumerate(self.settings):
            place = places[setting.label]
            if number and place is not None and place.is_file():
                found[setting.label] = loaded(place)
                for _ in images:
                    progress(setting.label)
                continue
            found[setting.label] = self.measure(setting, chunk, references, progress)
            if place is not None:
                save(place, found[setting.label])
        return found

    def place(self, first: int, last: int, setting: Setting) -> Path | None:
        """The file of a chunk, named after its images and all that decides a setting."""
        if self.folder is None:
            return None
        images = [example_hash(self.data, i) for i in range(first, last)]
        text = json.dumps([images, self.keys[setting.label]])
        return self.folder / f"{first:05d}-{last:05d}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"

    def key(self, setting: Setting) -> str:
        """The operators of a setting with all parameters, and their code where it is not ours."""
        code = source_hashes(replace(self.how.experiment, settings=(setting,)))
        return json.dumps([setting.identity(), code], sort_keys=True)

    def choose(self, chunk: Chunk) -> np.ndarray:
        """The strongest rivals of each image for the uncompressed model, on noise of their own: -> (n, M)."""
        errors = np.stack([decision.errors for decision in self.chooser(chunk.images)])
        return strongest_rivals(errors, chunk.truth, self.how.rivals)

    def measure(
        self, setting: Setting, chunk: Chunk, references: list["Reference"], progress: Callable[[str], None]
    ) -> Arrays:
        """One setting on some images; the first call is that of the uncompressed model, and fills the references."""
        response = TokenResponse(self.how.bands, self.grid, len(self.classifier.classes))
        rows: list[Arrays] = []
        with ExitStack() as stack:
            for handle in stack.enter_context(attached(self.denoiser.network, setting)):
                stack.enter_context(handle.observed(response))
            for number, residuals in self.classifier.residuals(chunk.images):
                residuals, truth = residuals.cpu(), chunk.truth[number]  # not every device has float64
                bands = torch.stack([band_errors(part, self.how.bands, self.patch) for part in residuals])
                if not bands.isfinite().all():
                    name = chunk.names[number]
                    raise FloatingPointError(f"{setting.label}: the errors of {name} are not finite; nothing is kept")
                rivals, dense = references[number]
                own = class_differences(residuals, truth, rivals)
                if dense is None:
                    references[number] = Reference(rivals, dense := own)
                maps = [by_patch(side, self.patch) for side in (dense, own)]
                differences = powers(maps[0], maps[1], self.how.bands).numpy()
                found = {"bands": bands.numpy(), "rivals": rivals, "differences": differences}
                rows.append(found | {"tokens": response.take()})
                progress(setting.label)
        arrays = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        exact = response.exact()
        return arrays if exact is None else arrays | {"exact": np.repeat(exact[None], len(rows), 0)}


class Reference(NamedTuple):
    """The strongest rivals of an image, and its class differences without compression, once they are measured."""

    rivals: np.ndarray
    differences: Tensor | None


def class_differences(residuals: Tensor, truth: int, rivals: np.ndarray) -> Tensor:
    """Predictions for the rivals less that for the true class: (K, R, C, H, W) -> (M, R, C, H, W), float64."""
    return residuals[rivals.tolist()].double() - residuals[truth].double()


def patch_of(denoiser: Denoiser) -> int:
    """How many latents a token of the finest grid is wide."""
    height, width = native_size(denoiser.network)
    finest = max(site.tokens for site in sites(denoiser.network, Where(only=lambda _: True)))
    return max(1, round(math.sqrt(height * width / finest)))


def with_dense(settings: Sequence[Setting]) -> list[Setting]:
    """The settings whose compression can be analysed, the uncompressed model first."""
    usable = [setting for setting in settings if not setting.own and "classify" in setting.tasks]
    dense = next((setting for setting in usable if setting.dense), None)
    if dense is None:
        dense = Setting("none", {}, (), max((s.n for s in usable), default=0), ("classify",))
    return [dense, *(setting for setting in usable if setting != dense)]


def loaded(path: Path) -> Arrays:
    try:
        with np.load(path) as found:
            return dict(found)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read ({error}); delete it and run again") from error


def save(path: Path, arrays: Arrays) -> None:
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)  # type: ignore[arg-type]
    write_whole(path, data.getvalue())

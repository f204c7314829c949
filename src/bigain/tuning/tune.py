"""`bigain.tune`: the setting of a model for a saving or for what is to be kept, verified on what was held out."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

from bigain.checks import check_count
from bigain.compression import Setting
from bigain.compression.document import model_shape
from bigain.denoisers.base import Denoiser, as_denoiser
from bigain.generation import Sampling, sampling_timesteps
from bigain.models.family import family_of
from bigain.models.site import Site
from bigain.operators.base import parse
from bigain.tuning.actions import OPERATORS, even_bands
from bigain.tuning.checkpoint import Checkpoint
from bigain.tuning.costs import Costs
from bigain.tuning.goal import Candidate, Goal, best
from bigain.tuning.material import Collected, Material, Sizes, collect
from bigain.tuning.meter import Meter, Reference, Task
from bigain.tuning.search import Clock, Map, Point, Progress, Searching, calibrate, measure_map
from bigain.tuning.trials import Trials
from bigain.tuning.verify import HELD_OUT, Features, Held, Verifier

MEASURING = 0.55  # share of the time after which no further action is measured


@dataclass(frozen=True)
class Effort:
    """How much is measured: images to search with and to verify on, trials, sampler steps, and what is tried."""

    images: int = 8
    held_out: int = 64
    trials: int = 6
    generated: int = 4
    held_out_generated: int = 24
    num_inference_steps: int = 20
    bands: int = 3
    operators: tuple[str, ...] = OPERATORS
    corrections: tuple[bool, ...] = (True, False)
    uniforms: int = 2  # of the best uniform operators that are verified

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int):
                check_count(name, value)
        for operator in self.operators:
            parse(operator)


@dataclass(frozen=True)
class Request:
    """A goal, what to measure on, and how long."""

    goal: Goal
    material: Material = field(default_factory=Material)
    minutes: float = 20.0
    checkpoint: Path | None = None
    seed: int = 0
    effort: Effort = field(default_factory=Effort)
    features: Features | None = None

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise ValueError(f"minutes must be above 0, got {self.minutes!r}")

    @property
    def sizes(self) -> Sizes:
        """How many images are needed for what is asked."""
        goal, effort = self.goal, self.effort
        classified = (effort.images, effort.held_out) if goal.classify else (0, 0)
        return Sizes(*classified, *((effort.generated, effort.held_out_generated) if goal.generate else (0, 0)))


@dataclass(frozen=True)
class Tuned:
    """The setting that was found, and what it was chosen from."""

    setting: Setting
    goal: Goal
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    map: Map = field(repr=False)
    frontier: tuple[Point, ...] = ()  # foretold by the sums of effects
    images: tuple[Tensor, Tensor] | None = field(default=None, repr=False)  # uncompressed and tuned, of the same seeds

    @property
    def met(self) -> bool:
        """Whether the goal was reached."""
        return self.goal.met(self.chosen.verified)

    @property
    def uniform(self) -> Candidate | None:
        """The best uniform operator that was verified."""
        return best([candidate for candidate in self.candidates if not candidate.tuned], self.goal)


def tune(
    model_or_pipeline: Denoiser | Any,
    *,
    save: float | None = None,
    keep: float | None = None,
    images: Sequence[Any] | None = None,
    labels: Sequence[str | int] | None = None,
    prompts: Sequence[str | int] | None = None,
    both: bool = True,
    minutes: float = 20.0,
    checkpoint: str | Path | None = None,
    seed: int = 0,
    effort: Effort | None = None,
    progress: Progress | None = None,
) -> Setting:
    """Find operators for each site and timestep that save much and change little, and verify them.

    `save=0.3` asks for 30 % of the FLOPs of all passes; `keep=0.95` for the largest saving that keeps 95 % of the
    decisions of the uncompressed model, and a structural similarity (SSIM) of 0.95 to its images.

    `prompts` are the classes that are told apart and generated, by default the model's own. `images` are what is
    classified, by default images that the model generates; `labels` are their classes, by which nothing is chosen.
    With `both=False` the setting is for classification where there are images, else for generation alone.

    With a `checkpoint` file, a search that was interrupted goes on. When `minutes` are over, the best of what was
    verified by then is returned; if it misses the target, a warning says so.
    """
    goal = Goal(save, keep, classify=both or images is not None, generate=both or images is None)
    place = None if checkpoint is None else Path(checkpoint)
    request = Request(goal, Material(images, labels, prompts), minutes, place, seed, effort or Effort())
    found = search(as_denoiser(model_or_pipeline), request, progress)
    if not found.met:
        warnings.warn(missed(found), stacklevel=2)
    return found.setting


def search(denoiser: Denoiser, request: Request, progress: Progress | None = None) -> Tuned:
    """Measure single actions, choose by them, and verify what was chosen."""
    goal, effort, tell = request.goal, request.effort, progress or silent
    clock, sampling = Clock(request.minutes), Sampling(effort.num_inference_steps, seed=request.seed)
    found = collect(denoiser, request.material, sampling, request.sizes, tell)
    meter = Meter(denoiser, Task(found.classes, effort.trials, sampling))
    last = denoiser.schedule.num_train_timesteps - 1
    checkpoint = Checkpoint(request.checkpoint, identity(denoiser, request, found))
    reference = Reference(meter, found.images, found.subjects, even_bands(effort.bands, last))
    work = Searching(reference, Costs(denoiser, len(found.classes)), checkpoint, clock, tell)
    corrections = effort.corrections if goal.classify and len(found.classes) > 2 else (False,)
    sites = every_site(denoiser)
    effects = measure_map(work, sites, effort.operators, corrections, MEASURING)
    calibrate(work, effects, sampling_timesteps(denoiser, sampling), last)
    held = Held(found.held_images, found.held_labels, found.held_subjects, request.features)
    trials = Trials(goal, Verifier(meter, work.costs, held, effects.steps), work)
    if goal.save is not None:
        trials.saving(effects, sites, goal.save, effort.uniforms)
    else:
        trials.keeping(effects)
    chosen = best(trials.done, goal)
    if chosen is None:
        raise ValueError("no operator saves anything at the sites of this model")
    setting = documented(denoiser, request, chosen, found)
    frontier = tuple(effects.frontier(goal.saving, goal.weight))
    shown = pictures(trials.verifier, chosen)
    return Tuned(setting, goal, chosen, tuple(trials.done), effects, frontier, shown)


def silent(what: str, done: int, total: int) -> None:
    """No progress is shown."""


def every_site(denoiser: Denoiser) -> list[Site]:
    """All sites that can be compressed."""
    network: Any = denoiser.network
    return family_of(network).sites(network)


def identity(denoiser: Denoiser, request: Request, found: Collected) -> dict[str, Any]:
    """What decides what is measured."""
    weights = hashlib.sha256()
    for name, value in denoiser.network.state_dict().items():
        weights.update(f"{name} {value.double().sum():.12e}".encode())
    goal = asdict(request.goal)
    return {
        "bigain": version("bigain"),
        "weights": weights.hexdigest()[:16],
        "images": found.mark(),
        "seed": request.seed,
        "capabilities": [goal["classify"], goal["generate"]],
        "effort": asdict(request.effort),
    }


def documented(denoiser: Denoiser, request: Request, chosen: Candidate, found: Collected) -> Setting:
    """The setting with what it was measured on and what it was measured to do."""
    goal, verified = request.goal, chosen.verified.as_json()
    target = {"save": goal.save} if goal.save is not None else {"keep": goal.keep}
    on = {
        "classes": list(map(str, found.classes)),
        "images": found.source,
        "images_verified": len(found.held_images or ()),
        "generated_verified": len(found.held_subjects or ()),
        "num_inference_steps": request.effort.num_inference_steps,
        "seed": request.seed,
        "bigain": version("bigain"),
    }
    measured = {
        "target": target | {"met": goal.met(chosen.verified)},
        "saved": verified.pop("saved"),
        "kept": verified,
        "on": on,
    }
    name = " and ".join(f"{key} {value:.0%}" for key, value in target.items() if value is not None)
    return Setting(chosen.parts, model_shape(denoiser.network), f"tuned to {name}", None, measured)


def pictures(verifier: Verifier, chosen: Candidate) -> tuple[Tensor, Tensor] | None:
    """Some images of the uncompressed and of the tuned model, of the same seeds."""
    if verifier.images is None or verifier.held.subjects is None:
        return None
    subjects = verifier.held.subjects[:10]
    return verifier.images[: len(subjects)], verifier.meter.images(chosen.parts, subjects, HELD_OUT)


def missed(found: Tuned) -> str:
    """What to say where the goal cannot be reached."""
    goal, verified = found.goal, found.chosen.verified
    if goal.save is not None:
        return (
            f"no setting that was found saves {goal.save:.0%}; the best saves {goal.saved(verified):.1%}. Attention "
            "and MLPs are a part of all FLOPs only; fewer sampler steps and fewer trials save the rest"
        )
    return f"no setting that was found keeps {goal.keep:.1%}; the best keeps {verified.kept():.1%}; try a smaller keep"

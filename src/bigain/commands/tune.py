"""Tune a model from the command line: load, search with progress bars, write the setting and its page."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from bigain.classify.images import to_tensor
from bigain.commands.request import given_names, model_names
from bigain.denoisers.base import Denoiser
from bigain.experiments.subjects import by_folder
from bigain.loading import best_dtype, load_denoiser
from bigain.plots.tuned_page import tuned_page
from bigain.progress import progress_bars
from bigain.tuning.goal import Goal
from bigain.tuning.material import Material
from bigain.tuning.tune import Effort, Request, Tuned, search


@dataclass(frozen=True)
class TuneFiles:
    """The words of the command."""

    model: str
    goal: Goal
    out: Path
    images: Sequence[Path] | None = None
    classes: str | None = None
    prompts: str = "{}"
    minutes: float = 20.0
    seed: int = 0
    device: str = "cpu"
    image_size: int | None = None
    effort: Effort = field(default_factory=Effort)

    @property
    def checkpoint(self) -> Path:
        """What was measured so far."""
        return self.out.with_suffix(".checkpoint.jsonl")

    @property
    def page(self) -> Path:
        return self.out.with_suffix(".html")


def tune_files(request: TuneFiles, console: Console) -> Tuned:
    """Tune and write the setting, its page and its figures."""
    denoiser = load_denoiser(
        request.model, device=request.device, dtype=best_dtype(request.device), image_size=request.image_size
    )
    wanted = Request(
        request.goal, material(denoiser, request), request.minutes, request.checkpoint, request.seed, request.effort
    )
    with progress_bars(console) as bars:
        tasks: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        found = search(denoiser, wanted, progress)
    found.setting.save(request.out)
    folder = request.out.with_suffix("")  # of its figures
    request.page.write_text(tuned_page(found, request.model, folder), encoding="utf-8")
    return found


def material(denoiser: Denoiser, request: TuneFiles) -> Material:
    """Images with the classes that their folders name, and the classes or prompts that were given."""
    names: list[str | int] | None = None
    given = given_names(request.classes)
    if given is not None:
        names = [with_template(name, request.prompts) for name in model_names(denoiser, given)]
    if request.images is None:
        return Material(prompts=names)
    images = [to_tensor(path, denoiser.image_spec) for path in request.images]
    own = names if names is not None else list(getattr(denoiser, "classes", ()))
    folders = by_folder(given if given is not None else own)
    labels = [folders.get(path.parent.name) for path in request.images]
    if any(label is None for label in labels):
        return Material(images, None, names)
    return Material(images, [with_template(str(label), request.prompts) for label in labels], names)


def with_template(name: str | int, prompts: str) -> str | int:
    return prompts.replace("{}", name) if isinstance(name, str) else name

"""One request of the command line: load, compress, classify, with a progress bar."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bigain.bench.files import Result, classify_files, find_images
from bigain.classify.classifier import DiffusionClassifier, fitting_rows
from bigain.classify.decision import Decision
from bigain.compression import compress
from bigain.generate import Sampling, generate
from bigain.loading import best_dtype, load
from bigain.pictures import contact_sheet, to_picture
from bigain.progress import progress_bars


@dataclass(frozen=True)
class Request:
    """What to classify with, as the command line says it."""

    model: str = "fashion-unet"
    classes: str | None = None
    prompts: str = "{}"
    operator: str | None = None
    reuse: Any = None
    groups: Any = None
    policy: str = "stages"
    trials: str = "even"
    seed: int = 0
    device: str = "cpu"


def classify_all(words: list[str], request: Request, console: Console) -> tuple[list[Result], dict[str, str]]:
    """Results of all readable images, and the reasons for the others."""
    denoiser = load(request.model, device=request.device, dtype=best_dtype(request.device))
    names = class_names(request.classes, denoiser)
    steps: Any = step_numbers(request.trials)
    classifier = DiffusionClassifier(
        denoiser, names, request.policy, prompts=request.prompts, trials=steps, seed=request.seed
    )
    found = find_images(words, names)
    options = {"reuse": request.reuse, "groups": request.groups}
    attached = compress(denoiser.network, request.operator, **options) if request.operator else nullcontext()
    with attached, progress_bars(console) as bars:
        task = bars.add_task("classifying", total=len(found))
        spent, full = 0, 0

        def show(decision: Decision) -> None:
            nonlocal spent, full
            spent += decision.evaluations
            full += decision.errors.size
            bars.update(task, advance=1, description=f"classifying, {1 - spent / full:.0%} of evaluations saved")

        return classify_files(classifier, found, show)


@dataclass(frozen=True)
class Wish:
    """What to generate, as the command line says it."""

    model: str = "fashion-unet"
    operator: str | None = None
    reuse: Any = None
    prompts: tuple[str, ...] = ()
    classes: str | None = None
    prompts_file: str | None = None
    count: int = 10
    device: str = "cpu"


def generate_all(wish: Wish, sampling: Sampling, folder: Path, console: Console) -> Path:
    """Write the images and a sheet of them all; -> the sheet."""
    if wish.count < 1:
        raise ValueError(f"count is a number of images from 1; got {wish.count}")
    denoiser = load(wish.model, device=wish.device, dtype=best_dtype(wish.device))
    names = subjects_of(wish, denoiser)
    chosen = [names[i % len(names)] for i in range(wish.count)]
    folder.mkdir(parents=True, exist_ok=True)
    attached = compress(denoiser.network, wish.operator, reuse=wish.reuse) if wish.operator else nullcontext()
    with attached, progress_bars(console) as bars:
        task = bars.add_task("generating", total=wish.count)
        images = generate(
            denoiser, chosen, sampling, batch_size=fitting_rows(denoiser), progress=lambda n: bars.advance(task, n)
        )
    for number, image in enumerate(images):
        to_picture(image).save(folder / f"{number:05d}.png")
    sheet = folder / "sheet.png"
    contact_sheet(images, min(len(names), 10) if len(names) > 1 else min(wish.count, 10), 1).save(sheet)
    return sheet


def subjects_of(wish: Wish, denoiser: Any) -> list[str]:
    """Prompts or classes, from whichever option names them; otherwise the model's own classes."""
    given = [wish.prompts, wish.classes, wish.prompts_file]
    if sum(bool(option) for option in given) > 1:
        raise ValueError("give --prompt, --classes or --prompts-file, not several of them")
    if wish.prompts:
        return list(wish.prompts)
    if wish.prompts_file:
        if not Path(wish.prompts_file).is_file():
            raise FileNotFoundError(f"no file {wish.prompts_file}")
        return class_names(wish.prompts_file, denoiser)
    return class_names(wish.classes, denoiser)


def step_numbers(text: str) -> str | tuple[int, ...]:
    """`125,525` -> (125, 525); words stay."""
    parts = [part.strip() for part in text.split(",")]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else text


def class_names(text: str | None, denoiser: Any) -> list[str]:
    """Names from a comma-separated text, from a file with one a line, or the model's own."""
    if text is None:
        own = getattr(denoiser, "classes", None)
        if own is None:
            raise ValueError("this model has no classes of its own; name them with --classes")
        return list(own)
    if Path(text).is_file():
        return [line.strip() for line in Path(text).read_text().splitlines() if line.strip()]
    return [name.strip() for name in text.split(",") if name.strip()]

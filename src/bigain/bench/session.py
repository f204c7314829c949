"""One request of the command line: load, compress, classify, with a progress bar."""

import itertools
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from bigain.backbones.denoiser import Denoiser
from bigain.bench.files import Result, classify_files, find_images
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.compression import compress
from bigain.generation import Sampling, generate
from bigain.loading import best_dtype, load_denoiser
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
    where: str | None = None


def classify_all(words: list[str], request: Request, console: Console) -> tuple[list[Result], dict[str, str]]:
    """Results of all readable images, and the reasons for the others."""
    denoiser = load_denoiser(request.model, device=request.device, dtype=best_dtype(request.device))
    names = class_names(request.classes, denoiser)
    steps: Any = step_numbers(request.trials)
    classifier = DiffusionClassifier(
        denoiser, names, request.policy, prompts=request.prompts, trials=steps, seed=request.seed
    )
    found = find_images(words, names)
    attached = attach(denoiser, request, groups="input")
    with attached, progress_bars(console) as bars:
        task = bars.add_task("classifying", total=len(found))
        spent, full = 0, 0

        def show(decision: Decision) -> None:
            nonlocal spent, full
            spent += decision.evaluations
            full += decision.errors.size
            saved = f", {1 - spent / full:.0%} of evaluations saved" if spent < full else ""
            bars.update(task, advance=1, description=f"classifying{saved}")

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
    where: str | None = None
    groups: Any = None


def attach(denoiser: Denoiser, asked: "Request | Wish", groups: str | None = None) -> AbstractContextManager[Any]:
    """The operator that is asked for, if any, for a while; `groups` where nothing is said of them."""
    options = {"where": asked.where, "reuse": asked.reuse, "groups": asked.groups}
    choices = {None: groups, "input": "input", "none": None}
    if asked.groups not in choices:
        raise ValueError(f"--groups is input, for rows with the same noisy input, or none; got {asked.groups}")
    if asked.operator is not None:
        return compress(denoiser.network, asked.operator, **options | {"groups": choices[asked.groups]})
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"--{given[0]} says how an operator is attached; name one with --operator")
    return nullcontext()


def generate_all(wish: Wish, sampling: Sampling, folder: Path, console: Console) -> Path:
    """Write the images and a sheet of them all; -> the sheet."""
    if wish.count < 1:
        raise ValueError(f"count is a number of images from 1; got {wish.count}")
    denoiser = load_denoiser(wish.model, device=wish.device, dtype=best_dtype(wish.device))
    names = subjects_of(wish, denoiser)
    if not names:
        raise ValueError("nothing to generate: the list of classes or prompts is empty")
    chosen = [names[i % len(names)] for i in range(wish.count)]
    attached = attach(denoiser, wish)
    make_room(folder, wish.count)
    with attached, progress_bars(console) as bars:
        task = bars.add_task("generating", total=wish.count)
        numbers = itertools.count()

        def keep(made: Tensor) -> None:
            for image, number in zip(made, numbers, strict=False):
                to_picture(image).save(folder / f"{number:05d}.png")
            bars.advance(task, len(made))

        images = generate(denoiser, chosen, sampling, progress=keep)
    sheet = folder / "sheet.png"
    contact_sheet(images, min(len(names), 10) if len(names) > 1 else min(wish.count, 10), 1).save(sheet)
    return sheet


def make_room(folder: Path, count: int) -> None:
    """The folder for images 0 to count - 1; more images of a former call would be taken for this one's."""
    folder.mkdir(parents=True, exist_ok=True)
    old = sorted(path.name for path in folder.glob("[0-9]" * 5 + ".png") if int(path.stem) >= count)
    if old:
        raise ValueError(
            f"{folder} has {len(old)} images of a former call that this one would leave there, first {old[0]}; "
            "empty the folder or take another one"
        )


def subjects_of(wish: Wish, denoiser: Denoiser) -> list[str | int]:
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
    if not wish.classes and denoiser.by_text and getattr(denoiser, "classes", None) is None:
        raise ValueError("this model follows text; say what to generate with --prompt, --prompts-file or --classes")
    return class_names(wish.classes, denoiser)


def step_numbers(text: str) -> str | tuple[int, ...]:
    """`125,525` -> (125, 525); words stay."""
    parts = [part.strip() for part in text.split(",")]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else text


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # many names are too long for one of a file
        return False


def class_names(text: str | None, denoiser: Denoiser) -> list[str | int]:
    """Names from a comma-separated text, from a file with one a line, or the model's own.

    Where a model is told numbers, not texts, numbers mean its classes.
    """
    if text is None:
        own = getattr(denoiser, "classes", None)
        if own is None:
            raise ValueError("this model has no classes of its own; name them with --classes")
        return list(own)
    if Path(text).suffix in (".txt", ".csv") and not is_file(text):
        raise FileNotFoundError(f"no file {text} with names of classes, one a line")
    parts = Path(text).read_text().splitlines() if is_file(text) else text.split(",")
    names = [part.strip() for part in parts if part.strip()]
    return [int(name) if name.isdigit() and not denoiser.by_text else name for name in names]

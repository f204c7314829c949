"""One request of the command line: load, compress, then classify or generate."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from bigain.backbones.denoiser import Denoiser
from bigain.bench.files import classify_files
from bigain.bench.request import (
    GROUPS,
    Request,
    Wish,
    attached_operator,
    check_attached,
    given_names,
    own_classes,
    step_numbers,
)
from bigain.bench.results import Result
from bigain.classify.classifier import DiffusionClassifier
from bigain.compression import compress
from bigain.generation import Sampling, generate
from bigain.loading import best_dtype, load_denoiser
from bigain.pictures import contact_sheet, to_picture
from bigain.progress import progress_bars
from bigain.zoo.shelf import Kind

SHEET = "sheet.png"


def classify_each(
    images: Sequence[Path], request: Request, unreadable: Callable[[str, str], None]
) -> Iterator[tuple[int, Result]]:
    """(number, result) of the readable images as they are decided; `unreadable` is told of the others."""
    denoiser = load_denoiser(request.model, device=request.device, dtype=best_dtype(request.device))
    names = for_model(denoiser, own_classes(kind(denoiser), given_names(request.classes)))
    steps: Any = step_numbers(request.trials)
    classifier = DiffusionClassifier(
        denoiser, names, request.policy, prompts=request.prompts, trials=steps, seed=request.seed
    )
    with attach(denoiser, request, groups="input"):
        yield from classify_files(classifier, images, unreadable)


def attach(denoiser: Denoiser, asked: Request | Wish, groups: str | None = None) -> AbstractContextManager[Any]:
    """The operator that is asked for, if any, for a while; `groups` where nothing is said of them."""
    check_attached(asked)
    operator = attached_operator(asked.operator)
    if operator is None:
        return nullcontext()
    shared: Any = groups if asked.groups is None else GROUPS[asked.groups]
    return compress(denoiser.network, operator, where=asked.where, reuse=asked.reuse, groups=shared)


def generate_all(wish: Wish, sampling: Sampling, folder: Path, console: Console) -> Path:
    """Write the images and a sheet of them all; -> the sheet."""
    wish.check()
    denoiser = load_denoiser(wish.model, device=wish.device, dtype=best_dtype(wish.device))
    names = for_model(denoiser, wish.subjects(kind(denoiser)))
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
    contact_sheet(images, min(len(names), 10) if len(names) > 1 else min(wish.count, 10), 1).save(folder / SHEET)
    return folder / SHEET


def make_room(folder: Path, count: int) -> None:
    """The folder for images 0 to count - 1; more images of a former call would be taken for this one's."""
    folder.mkdir(parents=True, exist_ok=True)
    old = sorted(path.name for path in folder.glob("[0-9]" * 5 + ".png") if int(path.stem) >= count)
    if old:
        raise ValueError(
            f"{folder} has {len(old)} images of a former call that this one would leave there, first {old[0]}; "
            "empty the folder or take another one"
        )
    (folder / SHEET).unlink(missing_ok=True)  # should this call end early, it must not seem to have ended well


def kind(denoiser: Denoiser) -> Kind:
    return Kind(denoiser.by_text, getattr(denoiser, "classes", None))


def for_model(denoiser: Denoiser, names: Sequence[str]) -> list[str | int]:
    """Where a model is told numbers, not texts, numbers mean its classes."""
    return [int(name) if name.isdecimal() and not denoiser.by_text else name for name in names]

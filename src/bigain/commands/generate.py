"""Generate images into a folder: load, compress, sample, write."""

import itertools
from pathlib import Path

from rich.console import Console
from torch import Tensor

from bigain.commands.request import GenerateRequest, attached, cached, model_names
from bigain.generation import Sampling, generate
from bigain.loading import best_dtype, load_denoiser
from bigain.pictures import contact_sheet, to_picture
from bigain.progress import progress_bars

SHEET = "sheet.png"


def generate_all(request: GenerateRequest, sampling: Sampling, folder: Path, console: Console) -> Path:
    """Write the images and a contact sheet; -> the path of the sheet."""
    request.check()
    denoiser = load_denoiser(
        request.model, device=request.device, dtype=best_dtype(request.device), image_size=request.image_size
    )
    names = model_names(denoiser, request.names())
    chosen = [names[i % len(names)] for i in range(request.count)]
    compressed = attached(denoiser, request.compression)
    make_room(folder, request.count)
    with compressed, cached(denoiser, request.cache), progress_bars(console) as bars:
        task = bars.add_task("generating", total=request.count)
        numbers = itertools.count()

        def keep(made: Tensor) -> None:
            for image, number in zip(made, numbers, strict=False):
                to_picture(image).save(folder / f"{number:05d}.png")
            bars.advance(task, len(made))

        images = generate(denoiser, chosen, sampling, progress=keep)
    contact_sheet(images, columns(len(names), request.count), 1).save(folder / SHEET)
    return folder / SHEET


def columns(names: int, count: int) -> int:
    """Of the contact sheet: one for each prompt or class, if there are several."""
    return min(names if names > 1 else count, 10)


def make_room(folder: Path, count: int) -> None:
    """Make the folder; images of an earlier run beyond `count` would look like this run's."""
    folder.mkdir(parents=True, exist_ok=True)
    old = sorted(path.name for path in folder.glob("[0-9]" * 5 + ".png") if int(path.stem) >= count)
    if old:
        raise ValueError(
            f"{folder} has {len(old)} images of an earlier run that would be mixed with the new ones, first {old[0]}; "
            "empty the folder or use another one"
        )
    (folder / SHEET).unlink(missing_ok=True)  # should this call end early, it must not seem to have ended well

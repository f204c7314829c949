"""`bigain classify` and `bigain generate` on a Ray cluster, in chunks of images that are always the same."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from PIL import Image
from rich.console import Console

from bigain.cluster.connect import ClusterOptions, connected
from bigain.cluster.parcels import SentFile, read_file
from bigain.cluster.pool import Done, GivenUp, Pool
from bigain.cluster.schedule import Schedule
from bigain.cluster.workers import RayCrew
from bigain.commands.classify import read_given
from bigain.commands.generate import SHEET, columns, make_room
from bigain.commands.remote import ClassifyRecipe, GenerateRecipe, Needs, Wanted
from bigain.commands.request import ClassifyRequest, GenerateRequest, weights_of
from bigain.commands.results import Result
from bigain.generation import Sampling
from bigain.pictures import contact_sheet, from_picture
from bigain.plugins import loaded
from bigain.progress import progress_bars
from bigain.sending import send_model

CHUNK = 16  # files that are classified together
Say = Callable[[str], None]


def needs(ray: ModuleType, model: str, options: ClusterOptions) -> Needs:
    parcel = send_model(ray, model) if options.send else None
    return Needs(tuple(loaded().items()), None if options.send else weights_of(model), parcel)


def classify_on_cluster(
    images: Sequence[Path], request: ClassifyRequest, options: ClusterOptions, unreadable: Callable[[str, str], None],
    say: Say,
) -> Iterator[tuple[int, Result]]:  # fmt: skip
    """Yield (number, result) as chunks are decided; `unreadable` gets images that were not, with the reason."""
    starts = range(0, len(images), CHUNK)

    def files(job: int) -> list[Path | SentFile]:
        own = images[starts[job] : starts[job] + CHUNK]
        return [sendable(path) for path in own] if options.send else list(own)

    request = replace(request, device=options.kind)
    with connected(options) as ray:
        recipe = ClassifyRecipe(request, needs(ray, request.model, options), read_given(request))
        crew = RayCrew(ray, options, recipe, say)
        with closing(crew):
            crew.start()
            for outcome in Pool(Schedule(range(len(starts))), crew, files).outcomes():
                first = starts[outcome.job]
                if isinstance(outcome, GivenUp):
                    for path in images[first : first + CHUNK]:
                        unreadable(str(path), f"{outcome.errors[-1]} ({len(outcome.errors)} attempts)")
                    continue
                for path, reason in outcome.result.unreadable:
                    unreadable(path, reason)
                yield from ((first + number, result) for number, result in outcome.result.results)


def sendable(path: Path) -> Path | SentFile:
    """The bytes of a file; one that cannot be read is said to be so by the worker."""
    try:
        return read_file(path)
    except OSError:
        return path


def generate_on_cluster(
    request: GenerateRequest, sampling: Sampling, folder: Path, options: ClusterOptions, console: Console
) -> tuple[Path, dict[str, str]]:
    """Write the images and a contact sheet; -> its path, and errors by images that always failed."""
    request.check()
    request = replace(request, device=options.kind)
    failed: dict[str, str] = {}
    with connected(options) as ray, progress_bars(console) as bars:
        recipe = GenerateRecipe(request, sampling, needs(ray, request.model, options), request.names())
        crew = RayCrew(ray, options, recipe, lambda text: console.print(text, markup=False))
        with closing(crew):
            crew.start()
            size, names = crew.ask("batch"), crew.ask("names")
            make_room(folder, request.count)
            task = bars.add_task("generating", total=request.count)
            parts = [Wanted(at, min(at + size, request.count)) for at in range(0, request.count, size)]
            pool = Pool(Schedule(range(len(parts))), crew, parts.__getitem__)
            for outcome in pool.outcomes():
                part = parts[outcome.job]
                if isinstance(outcome, Done):
                    write(folder, part, outcome.result)
                else:
                    failed[f"images {part.first} to {part.last - 1}"] = outcome.errors[-1]
                bars.update(task, advance=part.last - part.first, description=f"generating: {pool.status()}")
    if not failed:
        draw_sheet(folder, request.count, names)
    return folder / SHEET, failed


def write(folder: Path, part: Wanted, pictures: Sequence[bytes]) -> None:
    for number, data in enumerate(pictures, start=part.first):
        (folder / f"{number:05d}.png").write_bytes(data)


def draw_sheet(folder: Path, count: int, names: Sequence[Any]) -> None:
    images = []
    for number in range(count):
        with Image.open(folder / f"{number:05d}.png") as picture:
            images.append(from_picture(picture))
    contact_sheet(torch.stack(images), columns(len(names), count), 1).save(folder / SHEET)

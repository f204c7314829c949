"""`bigain demo`: a bundled model classifies and generates, uncompressed and compressed, in one table and one page."""

import io
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from bigain.classify.images import to_tensor
from bigain.commands.show import NOTHING, choose_site, look, noisy_pass
from bigain.data.dataset import Example
from bigain.experiments.compute import png
from bigain.experiments.experiment import Experiment, Generation, read_experiment
from bigain.experiments.folder import write_whole
from bigain.experiments.report import Report, read_report, right
from bigain.experiments.rows import DecisionRow
from bigain.experiments.run import execute
from bigain.experiments.runner import Run
from bigain.experiments.setting import Setting
from bigain.loading import load_denoiser
from bigain.operators.base import spec
from bigain.pictures import contact_sheet, from_picture, to_picture
from bigain.plots import curves, save_figure
from bigain.plots.page import Content, Maps, Picture, chosen_columns, make_page
from bigain.plots.tokens import VIEWS
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Plan, Pooled
from bigain.tokens.scores import laplacian_l1

FILE = Path(__file__).with_name("demo.toml")
FAST = Path(__file__).with_name("demo_fast.toml")
RECORDS = Path(__file__).parent.parent / "records"
MAPPED, STEP, DRAWS = 3, 150, 8  # images whose maps are drawn, their timestep, and noise draws of a score map
TOKEN = 20  # pixels a side of a token in a map
LEGEND = (
    f"The Laplacian score, mean of {DRAWS} noise draws, is high (bright) at detail. Next to it: each operator's plan "
    "for the first draw, applied to the image's own patches. Merged patches become their mean, framed ones are "
    "unchanged."
)
COMMANDS = (
    'bigain classify photos/ --operator "gated_merge(ratio=0.5)"    # your own images',
    'bigain generate --operator "gated_merge(ratio=0.5)" --count 20',
    "bigain flops --model sd2    # what operators save on Stable Diffusion 2",
    "bigain list operators",
)
WRONG, ALONE = (255, 90, 54), (255, 176, 0)
SCALE = np.array([(0, 34, 78), (124, 123, 120), (254, 232, 56)])  # colours of scores, safe for colour-blind readers


class Size(NamedTuple):
    """The number of images per setting."""

    images: int
    generated: int


QUICK = Size(10, 4)


@dataclass(frozen=True)
class DemoResult:
    """The reports of operators and of fast decisions, and the page that shows them."""

    report: Report
    fast: Report
    page: Path


def run_demo(folder: Path, console: Console, size: Size | None = None) -> DemoResult:
    """Run what is missing and write `report.html`; without a size, as many images as the experiment files say."""
    experiment = resized(read_experiment(FILE), size)
    place = folder / f"run-{experiment.n}-{generation(experiment).count}"
    run = Run.start(experiment, place, load_denoiser(experiment.model))
    with closing(run.store):
        fast = run_fast(folder, console, size)
        execute(run, console)
        with console.status("writing the page"):
            report = read_report(place)
            page = folder / "report.html"
            write_whole(page, make_page(collect(run, report, fast)).encode())
    return DemoResult(report, fast, page)


def run_fast(folder: Path, console: Console, size: Size | None) -> Report:
    """What each part contributes to a faster decision."""
    experiment = read_experiment(FAST)
    if size is not None:
        settings = tuple(replace(setting, n=size.images) for setting in experiment.settings)
        experiment = replace(experiment, n=size.images, settings=settings)
    place = folder / f"fast-{experiment.n}"
    run = Run.start(experiment, place, load_denoiser(experiment.model))
    with closing(run.store):
        execute(run, console)
    return read_report(place)


def collect(run: Run, report: Report, fast: Report) -> Content:
    """The content of the page."""
    site, mapped = maps(run)
    return Content(
        report=report,
        fast=fast,
        specs=operators(run.experiment),
        answers=[answer_sheet(run, setting) for setting in run.experiment.settings],
        generated=sheets(report),
        maps=mapped,
        maps_words=f"{LEGEND} Timestep {STEP}, at {site}.",
        curves=figures(run.folder),
        commands=[*COMMANDS, f"bigain report {run.folder}    # all results of this demo"],
    )


def operators(experiment: Experiment) -> dict[str, str]:
    """The operator of each compressed setting."""
    return {setting.label: spec(setting.attach[0].operator) for setting in experiment.settings if setting.attach}


def resized(experiment: Experiment, size: Size | None) -> Experiment:
    if size is None:
        return experiment
    settings = tuple(replace(setting, n=size.images) for setting in experiment.settings)
    generate = replace(generation(experiment), count=size.generated)
    return replace(experiment, n=size.images, generate=generate, settings=settings)


def generation(experiment: Experiment) -> Generation:
    assert experiment.generate is not None  # the file has it
    return experiment.generate


def demo_table(report: Report) -> Table:
    """The table that the command prints."""
    heads = chosen_columns(report)
    lines = [[column.text(row) or "–" for column in heads] for row in report.rows]
    table = Table(title=report.title, box=SIMPLE_HEAD, padding=0, show_edge=False)
    for column, cells in zip(heads, zip(*lines, strict=True), strict=True):
        width = max(map(len, [*column.head.split(), *cells]))  # heads may wrap, cells do not: fits 80 characters
        table.add_column(column.head, justify="left" if column is heads[0] else "right", width=width)
    for line in lines:
        table.add_row(*line)
    return table


def answer_sheet(run: Run, setting: Setting) -> Picture:
    """The classified images, one class per column if classes are balanced; wrong answers are framed."""
    classes = run.data.classes
    answers = run.store.decisions(run.ids[setting.label])
    across = min(len(classes), len(run.data))
    order = sorted(range(len(run.data)), key=lambda i: (i // across, run.data.examples[i].labels))
    shown = [run.data.examples[i] for i in order]
    pixels = torch.stack([to_tensor(example.image, run.denoiser.image_spec) for example in shown])
    sheet = contact_sheet(pixels, across).convert("RGB")
    side = sheet.width // across
    pen = ImageDraw.Draw(sheet)
    wrong = [i for i, example in enumerate(shown) if not right(answers[example.name])]
    for i in wrong:
        x, y = i % across * side, i // across * side
        pen.rectangle((x, y, x + side - 1, y + side - 1), outline=WRONG, width=5)
    words = f"{len(shown) - len(wrong)} of {len(shown)} right"
    alt = f"{len(shown)} test images classified by {setting.label}; {len(wrong)} wrong ones are framed"
    mistaken = mistakes([shown[i] for i in wrong], answers, classes)
    return Picture(png(sheet.quantize(64)), setting.label, words, alt, mistaken)


def mistakes(wrong: list[Example], answers: dict[str, DecisionRow], classes: tuple[str, ...]) -> list[str]:
    """`shirt taken for coat, 2 times`, the most frequent first."""
    pairs = Counter((classes[e.labels[0]], classes[answers[e.name].predicted]) for e in wrong)
    return [f"{a} taken for {b}" + (f", {n} times" if n > 1 else "") for (a, b), n in pairs.most_common()]


def sheets(report: Report) -> list[Picture]:
    """The generated images of each setting, the same seed in the same place."""
    found = []
    for row in report.rows:
        images = torch.stack([from_picture(Image.open(io.BytesIO(data))) for data in report.examples[row.label]])
        similarity = row.samples.ssim if row.samples else None
        words = f"SSIM {similarity.value:.3f} to uncompressed" if similarity else "the reference for the others"
        alt = f"{len(images)} images generated with {row.label}, the classes in turn"
        found.append(Picture(png(contact_sheet(images, min(5, len(images)), 3)), row.label, words, alt))
    return found


def maps(run: Run) -> tuple[str, list[Maps]]:
    """The first compressed site, and for some images their score there and each operator's plan."""
    denoiser, attached = run.denoiser, operators(run.experiment)
    site = choose_site(denoiser, list(attached.values()), None)
    found = []
    for example in run.data.examples[:MAPPED]:
        name = run.data.classes[example.labels[0]]
        pixels = to_tensor(example.image, denoiser.image_spec)
        noise = torch.randn((DRAWS, *denoiser.latent_shape), generator=torch.Generator().manual_seed(0))
        forward = noisy_pass(denoiser, pixels, name, STEP, noise)
        dense = look(denoiser, NOTHING, site, forward, everywhere=False)
        score = laplacian_l1(dense.tokens, dense.grid).mean(0)
        pictures = [
            Picture(png(magnified(pixels, dense.grid)), "the image", f"{dense.grid} tokens", f"a real image: {name}"),
            Picture(png(draw_score(score, dense.grid)), "Laplacian", "bright is detail", f"score map of the {name}"),
        ]
        for label, text in attached.items():
            plan = look(denoiser, text, site, forward, everywhere=True).plan
            words = VIEWS[type(plan)](plan, dense.grid).words
            drawn = png(draw_plan(pixels, plan, dense.grid))
            pictures.append(Picture(drawn, label, words, f"the {name} under {label}: {words}"))
        found.append(Maps(name, pictures))
    return site.name, found


def magnified(pixels: Tensor, grid: Grid) -> Image.Image:
    size = (grid.width * TOKEN, grid.height * TOKEN)
    return to_picture(pixels).convert("RGB").resize(size, Image.Resampling.NEAREST)


def draw_score(score: Tensor, grid: Grid) -> Image.Image:
    """The score, scaled to its range: (N,) -> an image."""
    found = score.view(*grid).cpu().numpy()
    share = (found - found.min()) / max(float(np.ptp(found)), 1e-12)
    colours = np.stack([np.interp(share, (0, 0.5, 1), SCALE[:, i]) for i in range(3)], -1)
    picture = Image.fromarray(colours.round().astype(np.uint8))
    return picture.resize((grid.width * TOKEN, grid.height * TOKEN), Image.Resampling.NEAREST)


def draw_plan(pixels: Tensor, plan: Plan, grid: Grid) -> Image.Image:
    """The plan applied to the image's own patches instead of tokens; unmerged tokens are framed."""
    side = pixels.shape[-1] // grid.width
    patches = F.pixel_unshuffle(pixels, side).flatten(1).T.expand(DRAWS, -1, -1)
    if isinstance(plan, Pooled):
        keys: Any = plan.context(patches)
        return magnified(as_image(keys[0], plan.coarse, side), grid)
    picture = magnified(as_image(plan.unmerge(plan.queries(patches))[0], grid, side), grid)
    pen = ImageDraw.Draw(picture)
    for row, column in np.argwhere(VIEWS[type(plan)](plan, grid).framed):
        x, y = int(column) * TOKEN, int(row) * TOKEN
        pen.rectangle((x, y, x + TOKEN - 1, y + TOKEN - 1), outline=ALONE, width=2)
    return picture


def as_image(patches: Tensor, grid: Grid, side: int) -> Tensor:
    """(N, c · side²) -> (c, h, w)."""
    return F.pixel_shuffle(patches.T.reshape(-1, *grid), side)


def figures(folder: Path) -> list[Picture] | None:
    """Accuracy curves of the bundled records; None without matplotlib."""
    found = []
    for record in sorted(RECORDS.glob("main-*.sqlite")):
        report = read_report(record)
        try:
            path = save_figure(curves(report), folder / f"{record.stem}.png")
        except ModuleNotFoundError:
            return None
        n = max(row.accuracy.n for row in report.rows if row.accuracy)
        words = f"{report.about} From the record {record.name}, n up to {n}."
        alt = f"Accuracy against the swept values for each method, with intervals: {report.title}"
        found.append(Picture(path.read_bytes(), report.title, words, alt))
    return found

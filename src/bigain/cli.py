"""The `bigain` command."""

import json
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

app = typer.Typer(
    help="Faster diffusion models that still generate and still classify.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)

MAIN_OPERATORS: list[tuple[str | None, str | None]] = [
    (None, None),
    ("tome(ratio=0.7)", None),
    ("gated_merge(ratio=0.7)", None),
    ("gated_merge(ratio=0.7)", "stage"),
    ("block_merge(ratio=0.7)", None),
    ("sito(ratio=0.7)", None),
    ("todo(factor=2)", None),
    ("kv_downsample(factor=2)", None),
    ("kv_downsample(factor=4)", None),
]

Operator = Annotated[str | None, typer.Option(help='An operator such as "gated_merge(ratio=0.7)".')]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]


@app.command()
def flops(
    model: Annotated[str, typer.Option(help="sd15, sd2, sdxl, dit-xl-2-256, dit-xl-2-512, or a model folder.")] = "sd2",
    operator: Operator = None,
    where: Annotated[str | None, typer.Option(help="Sites, such as \"part='down'\".")] = None,
    reuse: Annotated[str | None, typer.Option(help="stage: plan once in each stage.")] = None,
    latent: Annotated[str | None, typer.Option(help="Height x width of the latents, such as 64x64.")] = None,
    as_json: Json = False,
) -> None:
    """Count the FLOPs of one forward pass, without weights; without --operator, for the main operators."""
    from bigain.backbones.architectures import build_meta
    from bigain.backbones.site import native_size
    from bigain.bench.cost import count_flops

    rows: list[dict[str, Any]] = []
    try:
        network: Any = build_meta(model)
        size = parse_size(latent) if latent else None
        settings = [(operator, reuse)] if operator else MAIN_OPERATORS
        dense = count_flops(network, latent=size) / 1e9
        for text, again in settings:
            options = {"where": where, "reuse": again} if text else {}
            gflops = count_flops(network, text, latent=size, **options) / 1e9 if text else dense
            height, width = size or native_size(network)
            rows.append(
                {
                    "model": model,
                    "operator": text or "none",
                    "reuse": again,
                    "where": where,
                    "latent": f"{height}x{width}",
                    "gflops": gflops,
                    "saved": 1 - gflops / dense,
                }
            )
    except (ValueError, TypeError) as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps(rows[0] if operator else rows))
        return
    table = Table(title=f"{model}, {rows[0]['latent']} latents, one sample, one forward pass")
    for head, justify in (("operator", "left"), ("reuse", "left"), ("GFLOPs", "right"), ("saved", "right")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(row["operator"], row["reuse"] or "", f"{row['gflops']:.2f}", f"{row['saved']:.1%}")
    out.print(table)


@app.command()
def classify(
    images: Annotated[list[str], typer.Argument(help="Image files, folders and globs.")],
    model: Annotated[str, typer.Option(help="A bundled model, a folder or a hub id.")] = "fashion-unet",
    classes: Annotated[str | None, typer.Option(help="Names, separated by commas, or a file with one a line.")] = None,
    prompts: Annotated[str, typer.Option(help='For models of text: "a photo of a {}".')] = "{}",
    operator: Operator = None,
    reuse: Annotated[str | None, typer.Option(help="stage: plan once in each stage.")] = None,
    groups: Annotated[str | None, typer.Option(help="input: the classes of a trial share one plan.")] = None,
    policy: Annotated[str, typer.Option(help='Such as "race(confidence=0.5)" or "imagenet-1k".')] = "stages",
    trials: Annotated[
        str, typer.Option(help="Time steps: even, random, informative, or numbers like 125,525.")
    ] = "even",
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    device: Annotated[str, typer.Option(help="Where to run, such as cpu or cuda.")] = "cpu",
    top: Annotated[int, typer.Option(help="How many of the best classes to show.")] = 1,
    csv: Annotated[str | None, typer.Option("--out", help="Write a CSV file, too.")] = None,
    as_json: Json = False,
) -> None:
    """Classify images zero-shot. Folders named after classes also give the accuracy."""
    from bigain.bench import files
    from bigain.bench.session import Request, classify_all

    try:
        request = Request(model, classes, prompts, operator, reuse, groups, policy, trials, seed, device)
        results, unreadable = classify_all(images, request, err)
    except (ValueError, TypeError, OSError) as error:
        fail(error)
    if csv:
        from pathlib import Path

        files.write_csv(Path(csv), results, top)
    if as_json:
        typer.echo(json.dumps(files.as_json(results, unreadable, top)))
    else:
        show_results(results, top)
    for path, reason in unreadable.items():
        err.print(f"[yellow]not classified:[/] {escape(f'{path}: {reason}')}", highlight=False)
    if unreadable:
        raise typer.Exit(1)


def show_results(results: list[Any], top: int) -> None:
    from bigain.bench.files import accuracy_of

    table = Table()
    for head, justify in (("image", "left"), ("label", "left"), ("probability", "right"), ("margin", "right")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]
    for r in results:
        labels = "\n".join(name for name, _ in r.top[:top])
        chances = "\n".join(f"{chance:.3f}" for _, chance in r.top[:top])
        table.add_row(r.path, labels, chances, f"{r.margin:.2e} ± {r.margin_error:.0e}")
    out.print(table)
    share = accuracy_of(results)
    if share is not None:
        out.print(f"accuracy {share}", highlight=False)


@app.command()
def train(
    name: Annotated[str, typer.Argument(help="fashion-dit, fashion-unet or fashion-features.")] = "fashion-dit",
    data: Annotated[str | None, typer.Option(help="Folder with the data set's official files.")] = None,
    out_dir: Annotated[str | None, typer.Option("--out", help="Where to write; runs/NAME by default.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed than the recipe's 0.")] = 0,
    stop_after: Annotated[int | None, typer.Option(help="Stop at this many samples of the recipe.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; torch's choice by default.")] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Prove the whole path on few images in under a minute.")
    ] = False,
) -> None:
    """Train one of the bundled models from its recipe; started again, it goes on where it was killed."""
    from pathlib import Path

    from bigain.zoo.command import Options, train_named

    folder = Path(out_dir or f"runs/{name}")
    try:
        train_named(name, folder, Options(data, seed, stop_after, threads, smoke), err)
    except (ValueError, FileNotFoundError) as error:
        fail(error)
    out.print((folder / "card.md").read_text(), markup=False, highlight=False)


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="A TOML file, such as those in benchmarks/experiments.")],
    folder: Annotated[str | None, typer.Option("--out", help="Folder of the results; runs/NAME by default.")] = None,
    device: Annotated[str, typer.Option(help="Where to run, such as cpu or cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads; torch's choice by default.")] = None,
) -> None:
    """Run an experiment. Started again, it goes on where it was; started twice, the two share the work."""
    import sqlite3
    from pathlib import Path

    import torch

    from bigain.bench.run import run_file

    path = Path(experiment)
    place = Path(folder or f"runs/{path.stem}")
    try:
        if threads:
            torch.set_num_threads(threads)
        skipped = run_file(path, place, device, err)
    except (ValueError, TypeError, OSError, sqlite3.Error) as error:
        fail(error)
    for name, reason in skipped.items():
        err.print(f"[yellow]left out:[/] {escape(f'{name}: {reason}')}", highlight=False)
    out.print(f"results in {place}; bigain report {place} shows them", highlight=False)


@app.command()
def report(
    records: Annotated[list[str], typer.Argument(help="Run folders or record files.")],
    form: Annotated[str, typer.Option("--format", help="markdown, csv or latex.")] = "markdown",
    folder: Annotated[str | None, typer.Option("--out", help="Write the tables and figures there, too.")] = None,
    record: Annotated[str | None, typer.Option(help="Write a small copy of one run's record for keeping.")] = None,
) -> None:
    """Tables and figures from the records of experiments."""
    from pathlib import Path

    from bigain.bench.report import FORMATS, find_record, read_report, write_report
    from bigain.bench.store import Store
    from bigain.registry import miss

    try:
        if form not in FORMATS:
            raise ValueError(miss("format", form, list(FORMATS)))
        places = [Path(name) for name in records]
        if record and len(places) > 1:
            raise ValueError("--record copies one run; several were given")
        for place in places:
            found = read_report(place)
            typer.echo(FORMATS[form](found))
            if folder:
                write_report(found, Path(folder))
            if record:
                Store(find_record(place), read_only=True).write_record(Path(record))
    except (ValueError, OSError, ImportError) as error:
        fail(error)


@app.command()
def show(
    image: Annotated[str, typer.Argument(help="An image file.")],
    model: Annotated[str, typer.Option(help="A bundled model, a folder or a hub id.")] = "fashion-unet",
    operator: Annotated[list[str] | None, typer.Option(help="An operator; may be given several times.")] = None,
    label: Annotated[str | None, typer.Option(help="The class or prompt that the model is told.")] = None,
    t: Annotated[int, typer.Option(help="Time step.")] = 500,
    draws: Annotated[int, typer.Option(help="Noise draws that the score map is averaged over.")] = 4,
    site: Annotated[str | None, typer.Option(help="Which attention; the first compressed one by default.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    picture: Annotated[str, typer.Option("--out", help="Where to write the picture: PNG or SVG.")] = "show.png",
) -> None:
    """Draw, for one image, the Laplacian map and which tokens operators merge."""
    from pathlib import Path

    from bigain.bench.show import show
    from bigain.loading import load
    from bigain.plots import save_figure

    wanted = operator or ["gated_merge(ratio=0.5)", "tome(ratio=0.5)"]
    try:
        figure = show(image, load(model), wanted, label=label, t=t, draws=draws, site=site, seed=seed)
        save_figure(figure, Path(picture))
    except (ValueError, TypeError, OSError, ImportError) as error:
        fail(error)
    out.print(f"drawn in {picture}", highlight=False)


@app.command()
def generate(
    model: Annotated[str, typer.Option(help="A bundled model, a folder or a hub id.")] = "fashion-unet",
    operator: Operator = None,
    reuse: Annotated[str | None, typer.Option(help="stage: plan once in each stage.")] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt or class; may be given several times.")] = None,
    classes: Annotated[str | None, typer.Option(help="Names, separated by commas, or a file with one a line.")] = None,
    prompts_file: Annotated[str | None, typer.Option(help="A text file with one prompt a line.")] = None,
    count: Annotated[int, typer.Option(help="How many images; prompts are used in turn.")] = 10,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 50,
    guidance: Annotated[float | None, typer.Option(help="1 means none; the model's usual one by default.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Any diffusers scheduler; the paper's by default.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise; each image has its own.")] = 0,
    device: Annotated[str, typer.Option(help="Where to run, such as cpu or cuda.")] = "cpu",
    folder: Annotated[str, typer.Option("--out", help="Where to write the images and their sheet.")] = "images",
) -> None:
    """Generate images, each from its own seed: batch size and order change nothing."""
    from pathlib import Path

    from bigain.bench.session import Wish, generate_all
    from bigain.generate import Sampling

    try:
        wish = Wish(model, operator, reuse, tuple(prompt or ()), classes, prompts_file, count, device)
        sheet = generate_all(wish, Sampling(steps, guidance, scheduler, seed), Path(folder), err)
    except (ValueError, TypeError, OSError) as error:
        fail(error)
    out.print(f"{count} images in {folder}, side by side in {sheet}", highlight=False)


@app.command("list")
def list_names(
    what: Annotated[str, typer.Argument(help="operators, scorers, policies, models, data or architectures.")],
    as_json: Json = False,
) -> None:
    """List what there is, one line each."""
    from bigain.registry import miss

    shelves = {
        "operators": operator_lines,
        "scorers": scorer_lines,
        "policies": policy_lines,
        "models": model_lines,
        "data": data_lines,
        "architectures": architecture_lines,
    }
    if what not in shelves:
        fail(ValueError(miss("list of", what, shelves)))
    lines = shelves[what]()
    if as_json:
        typer.echo(json.dumps(lines))
        return
    table = Table.grid(padding=(0, 2))
    for name, text in lines.items():
        table.add_row(f"[bold]{name}[/]", escape(text))
    out.print(table)


def operator_lines() -> dict[str, str]:
    from bigain.operators import OPERATORS

    return {name: first_sentence(cls) for name, cls in OPERATORS.items()}


def scorer_lines() -> dict[str, str]:
    from bigain.tokens.scores import SCORERS

    return {name: first_sentence(function) for name, function in SCORERS.items()}


def policy_lines() -> dict[str, str]:
    from bigain.classify.board import POLICIES
    from bigain.classify.policies import PAPER

    own = {name: first_sentence(cls) for name, cls in POLICIES.items()}
    return own | {name: f"The paper's setting for that data set: {policy}" for name, policy in PAPER.items()}


def data_lines() -> dict[str, str]:
    from bigain.data import DATASETS

    return {name: first_sentence(function) for name, function in DATASETS.items()}


def architecture_lines() -> dict[str, str]:
    from bigain.backbones.architectures import ARCHITECTURES

    return {name: class_name for name, (class_name, _) in ARCHITECTURES.items()}


def model_lines() -> dict[str, str]:
    from bigain.zoo.shelf import model_lines

    return model_lines()


def first_sentence(thing: Any) -> str:
    """The first sentence of a docstring, on one line."""
    text = " ".join((thing.__doc__ or "").split())
    return text.split(". ")[0].rstrip(".")


def parse_size(text: str) -> tuple[int, int]:
    """`48x80` -> (48, 80)."""
    height, _, width = text.partition("x")
    if not (height.isdigit() and width.isdigit()) or "0" in (height, width):
        raise ValueError(f"a size is height x width, like 64x64; got {text!r}")
    return int(height), int(width)


def fail(error: Exception) -> NoReturn:
    """Say what is wrong and leave with exit code 2, the code for bad input."""
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    err.print(f"[red]error:[/] {escape(str(text))}", highlight=False)
    raise typer.Exit(2)

"""`bigain classify`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import (
    DECISION,
    OUTPUT,
    Classes,
    Cluster,
    Correct,
    Device,
    Groups,
    ImageSize,
    Model,
    Operator,
    Prompts,
    Reuse,
    Seed,
    Send,
    Threads,
    Where,
    Workers,
    cluster_options,
    json_of,
    names_of,
    words,
)


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        'bigain classify photos/ --operator "gated_merge(ratio=0.5)"',
        "bigain classify photos/ --out results.csv --resume",
        'bigain classify pets/ --model my/sd2 --classes cat,dog --prompts "a {} photo"',
    ),
)
def classify(
    ctx: typer.Context,
    images: Annotated[list[str], typer.Argument(metavar="IMAGES", help="Image files, folders and globs.")],
    model: Model = "fashion-unet",
    image_size: ImageSize = None,
    classes: Classes = None,
    prompts: Prompts = "{}",
    operator: Operator = None,
    where: Where = None,
    reuse: Reuse = None,
    groups: Groups = None,
    correct: Correct = None,
    cache: Annotated[str | None, typer.Option(hidden=True)] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help='paper, balanced, fast, or when classes are dropped, such as "race(confidence=0.5)"; see `bigain '
            "list policies`.",
            autocompletion=names_of("policies"),
            rich_help_panel=DECISION,
        ),
    ] = "balanced",
    timesteps: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="even, random, fitted (with the model's own weights), a file of `bigain fit`, or numbers like "
            "125,525. Default: those of the preset, else even.",
            autocompletion=words("even", "random", "fitted"),
            rich_help_panel=DECISION,
        ),
    ] = None,
    final_operator: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help='Operator, or none, of the last rounds of a cascade, such as --policy "cascade(survivors=3)".',
            rich_help_panel=DECISION,
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    cluster: Cluster = None,
    workers: Workers = None,
    send: Send = False,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="Classes to show, best first.", rich_help_panel=OUTPUT)
    ] = 1,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write one row per image as it is classified: CSV (.csv) or JSON Lines (.jsonl). An existing file "
            "needs --resume.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            metavar="",
            help="Continue the file of --out and skip its images. Model, weights, operator and other settings must be "
            "the same.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        json_of(
            "{results: a list of {path, label, probability, margin, margin_error, evaluations, top, truth}, in the "
            "order of the images, unreadable: reasons by path, accuracy: {hits, n, low, high, value} or null}",
            OUTPUT,
        ),
    ] = False,
) -> None:
    """Classify images zero-shot, with a diffusion model and without training.

    Results are printed one by one, then the accuracy if folders are named after classes.
    Unreadable images are reported and skipped. With --out, results survive Ctrl-C and SIGTERM.
    """
    if cache is not None:
        raise ValueError(
            "--cache is for `bigain generate`: a cache reuses outputs of earlier sampler steps, which the trials of a "
            "classifier do not have; use --operator"
        )
    from bigain.cli.classifying import Classifying, Output, settings_of
    from bigain.commands.request import ClassifyRequest, CompressionOptions
    from bigain.data.images import find_images

    compression = CompressionOptions(operator, where, reuse, groups, correct)
    decision = (policy, timesteps, seed, device, final_operator, image_size)
    request = ClassifyRequest(model, classes, prompts, compression, *decision)
    output = Output(file, resume, as_json, top)
    output.check()
    found = find_images(images)
    request.check()
    options = cluster_options(cluster, device, threads, workers, send)
    settings = settings_of(request, top, ctx.find_root().params.get("load") or ()) if file else ""
    Classifying(found, output, settings).run(request, options)

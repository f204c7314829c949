"""`bigain classify`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import (
    OUTPUT,
    Classes,
    Correct,
    Device,
    Groups,
    Model,
    Operator,
    Reuse,
    Seed,
    Threads,
    Where,
    json_of,
    names_of,
    words,
)

DECISION = "Decision"


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
    classes: Classes = None,
    prompts: Annotated[
        str, typer.Option(metavar="TEXT", help='The text around a class, for models of text: "a photo of a {}".')
    ] = "{}",
    operator: Operator = None,
    where: Where = None,
    reuse: Reuse = None,
    groups: Groups = None,
    correct: Correct = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help='When classes are dropped, such as "race(confidence=0.5)"; `bigain list policies` names them.',
            autocompletion=names_of("policies"),
            rich_help_panel=DECISION,
        ),
    ] = "stages",
    timesteps: Annotated[
        str,
        typer.Option(
            metavar="T",
            help="Timesteps: even, random, informative (measured for the model), or numbers like 125,525.",
            autocompletion=words("even", "random", "informative"),
            rich_help_panel=DECISION,
        ),
    ] = "even",
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many of the best classes to show.", rich_help_panel=OUTPUT)
    ] = 1,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write a row for each image as soon as it is decided: CSV (.csv) or JSON Lines (.jsonl). A file that "
            "is there already is refused without --resume.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            metavar="",
            help="Go on with the file of --out: images that are in it are skipped, half a row at its end is removed. "
            "Its column `settings`, a hash of the weights and of what decides the results, must be the same.",
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
    """Classify images zero-shot: no training, only the diffusion model.

    Rows appear as they are decided. Where folders are named after classes, the accuracy is printed, too. What cannot
    be read is named and left out. Ctrl-C and SIGTERM say what is done; with --out it is kept.
    """
    from bigain.cli.classifying import Classifying, Output, settings_of
    from bigain.commands.request import ClassifyRequest, CompressionOptions
    from bigain.data.images import find_images

    compression = CompressionOptions(operator, where, reuse, groups, correct)
    request = ClassifyRequest(model, classes, prompts, compression, policy, timesteps, seed, device)
    output = Output(file, resume, as_json, top)
    output.check()
    found = find_images(images)
    request.check()
    settings = settings_of(request, top, ctx.find_root().params.get("load") or ()) if file else ""
    Classifying(found, output, settings).run(request)

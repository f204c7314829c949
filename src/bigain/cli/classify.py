"""`bigain classify`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from bigain.cli.console import err, out, print_json, report_left_out, say
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import (
    OUTPUT,
    Classes,
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

if TYPE_CHECKING:
    from bigain.bench.files import Result

DECISION = "Decision"


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        'bigain classify photos/ --operator "gated_merge(ratio=0.5)"',
        'bigain classify pets/ --model my/sd2 --classes cat,dog --prompts "a {} photo"',
    ),
)
def classify(
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
    policy: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help='When classes are dropped, such as "race(confidence=0.5)"; `bigain list policies` names them.',
            autocompletion=names_of("policies"),
            rich_help_panel=DECISION,
        ),
    ] = "stages",
    trials: Annotated[
        str,
        typer.Option(
            metavar="STEPS",
            help="Time steps: even, random, informative (measured for the model), or numbers like 125,525.",
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
    csv: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a CSV file, too.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Annotated[
        bool,
        json_of(
            "{results: a list of {path, label, probability, margin, margin_error, evaluations, top, truth}, "
            "unreadable: reasons by path, accuracy: {hits, n, low, high, value} or null}",
            OUTPUT,
        ),
    ] = False,
) -> None:
    """Classify images zero-shot: no training, only the diffusion model.

    Where folders are named after classes, the accuracy is printed, too; images that cannot be read are named last.
    """
    from bigain.bench import files
    from bigain.bench.session import Request, classify_all

    request = Request(model, classes, prompts, operator, reuse, groups, policy, trials, seed, device, where)
    if csv:
        csv.parent.mkdir(parents=True, exist_ok=True)  # what cannot be written is known before the work
    results, unreadable = classify_all(images, request, err)
    if csv:
        files.write_csv(csv, results, top)
    if as_json:
        print_json(files.as_json(results, unreadable, top))
    else:
        show_results(results, top)
        share = files.accuracy_of(results)
        if share is not None:
            rest = len(results) - share.n
            left = f"; the folders of {rest} other image{'s' * (rest > 1)} name no class" if rest else ""
            say(f"accuracy {share}{left}")
    report_left_out("not classified", unreadable)


def margin_text(result: "Result") -> str:
    """With one trial there is no error to show."""
    if math.isnan(result.margin):
        return "–"
    return f"{result.margin:.2e}" + ("" if math.isnan(result.margin_error) else f" ± {result.margin_error:.0e}")


def show_results(results: "list[Result]", top: int) -> None:
    table = Table()
    table.add_column("image", overflow="fold")
    table.add_column("label")
    table.add_column("probability", justify="right")
    table.add_column("margin", justify="right")
    for r in results:
        labels = "\n".join(name for name, _ in r.top[:top])
        chances = "\n".join(f"{chance:.3f}" for _, chance in r.top[:top])
        path = r.path.encode(errors="replace").decode()  # a terminal takes no names that are no UTF-8
        table.add_row(escape(path), escape(labels), chances, margin_text(r))
    out.print(table)

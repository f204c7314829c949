"""`bigain merge`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bigain.cli.console import Code, print_json, say, warn
from bigain.cli.main import EXPERIMENTS, app, examples
from bigain.cli.options import json_of

if TYPE_CHECKING:
    from bigain.experiments.merge import Merged


@app.command(
    rich_help_panel=EXPERIMENTS,
    epilog=examples("bigain merge runs/main/shard-* --out runs/main"),
)
def merge(
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORDS", help="Run folders of shares, from `bigain run --shard`.")
    ],
    folder: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Run folder for the joined record; one that exists is added to."),
    ],
    as_json: Annotated[
        bool,
        json_of(
            "{folder: a path, records, decisions, images, gaps: a list of {label, task, lacking, wanted}, shares: "
            "those that lack}"
        ),
    ] = False,
) -> None:
    """Join the records of an experiment's shares, and say what is missing.

    Records of different experiments, images, weights, code, precision or versions are refused.
    """
    from bigain.experiments.merge import merge as join

    merged = join(records, folder)
    if as_json:
        print_json({**merged._asdict()})
    else:
        tell(merged)
    if merged.gaps:
        raise typer.Exit(Code.LEFT_OUT)


def tell(merged: "Merged") -> None:
    parts = [
        f"{number:,} {word}{'s' * (number > 1)}"
        for number, word in ((merged.decisions, "decision"), (merged.images, "generated image"))
        if number
    ]
    records = f"{merged.records} record{'s' * (merged.records > 1)}"
    say(f"{records} joined in {merged.folder}: {', '.join(parts) or 'nothing'}")
    verbs = {"classify": "decisions", "generate": "images"}
    for gap in merged.gaps:
        warn("[yellow]missing:[/] ", f"{gap.label}: {gap.lacking:,} of {gap.wanted:,} {verbs[gap.task]}")
    if merged.shares:
        warn("[yellow]missing:[/] ", f"results of shard {', '.join(merged.shares)}")
    what = "computes what is missing and measures" if merged.gaps else "measures"
    say(f"next: `bigain run FILE --out {merged.folder}` {what}, then `bigain report {merged.folder}`")

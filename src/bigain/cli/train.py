"""`bigain train`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import err, interrupted, print_json, say
from bigain.cli.main import MORE, app, examples
from bigain.cli.options import RunFolder, Threads, json_of


def recipes(incomplete: str) -> list[str]:
    """Complete the names of recipes."""
    from bigain.zoo.recipes import FEATURES, RECIPES

    return [name for name in (*RECIPES, *FEATURES) if name.startswith(incomplete)]


@app.command(
    rich_help_panel=MORE,
    epilog=examples(
        "bigain train fashion-dit --smoke",
        "bigain train fashion-unet --data /data/fashion-mnist --out runs/mine",
    ),
)
def train(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Recipe or feature network, such as fashion-dit or fashion-features.",
            autocompletion=recipes,
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Folder with the dataset's official files. Default: the usual folders."),
    ] = None,
    folder: RunFolder = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of weights, batches and noise.")] = 0,
    stop_after: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after this many samples.")] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", metavar="", help="Test the whole command on a few images, in under a minute.")
    ] = False,
    threads: Threads = None,
    as_json: Annotated[bool, json_of("{folder: a path, card: the content of card.json}")] = False,
) -> None:
    """Train a bundled model from its recipe.

    Run it again after an interruption to continue from the last checkpoint.
    """
    from bigain.zoo.command import Options, train_named

    place = folder or Path("runs") / (f"{name}-smoke" if smoke else name)
    try:
        train_named(name, place, Options(data, seed, stop_after, smoke), err)
    except KeyboardInterrupt:
        kept = (place / "checkpoint.pt").is_file()
        interrupted(f"checkpoint in {place}; run the same command to continue" if kept else "")
    if as_json:
        print_json({"folder": place, "card": json.loads((place / "card.json").read_text())})
    else:
        say((place / "card.md").read_text())

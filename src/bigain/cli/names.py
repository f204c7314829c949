"""`bigain list`."""

from typing import Annotated

import typer
from rich.table import Table

from bigain.cli.catalog import CATALOG, as_written, parameters
from bigain.cli.console import cell, out, print_json
from bigain.cli.main import MORE, app, examples
from bigain.cli.options import json_of, words
from bigain.registry import miss


@app.command(
    "list",
    rich_help_panel=MORE,
    epilog=examples("bigain list operators", "bigain --load my_operator.py list operators"),
)
def list_names(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help=f"One of {', '.join(CATALOG)}.", autocompletion=words(*CATALOG))
    ],
    as_json: Annotated[
        bool,
        json_of("by name {text: a line, parameters: a list of {name, required, default}}"),
    ] = False,
) -> None:
    """List operators, models, datasets and more, with their parameters."""
    if what not in CATALOG:
        raise ValueError(miss("list", what, CATALOG))
    lines, taken = CATALOG[what](), parameters(what)
    if as_json:
        print_json({name: {"text": text, "parameters": taken.get(name, [])} for name, text in lines.items()})
        return
    table = Table.grid(padding=(0, 2))
    for name, text in lines.items():
        table.add_row(f"[bold]{cell(name)}[/]", cell(text))
        if taken.get(name):
            table.add_row("", f"[dim]{cell(', '.join(map(as_written, taken[name])))}[/]")
    out.print(table)

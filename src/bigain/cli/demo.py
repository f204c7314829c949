"""`bigain demo`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import err, interrupted, out, print_json, say
from bigain.cli.main import app, examples
from bigain.cli.options import Threads, json_of


@app.command(epilog=examples("bigain demo --quick"))
def demo(
    quick: Annotated[bool, typer.Option("--quick", metavar="", help="Use only a few images.")] = False,
    folder: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for the results and report.html.")
    ] = Path("demo"),
    threads: Threads = None,
    as_json: Annotated[bool, json_of("{page: a path, rows and fast: lists as in report --json}")] = False,
) -> None:
    """Try it: a bundled model classifies and generates, with and without compression.

    Takes a few minutes, downloads nothing, and writes a table and a web page.
    """
    from bigain.commands.demo import QUICK, demo_table, run_demo
    from bigain.plots.parts import first_line

    try:
        result = run_demo(folder, err, QUICK if quick else None)
    except KeyboardInterrupt:
        interrupted(f"results so far are in {folder}; run the same command to continue")
    if as_json:
        rows, fast = ([vars(row) for row in report.rows] for report in (result.report, result.fast))
        print_json({"page": result.page, "rows": rows, "fast": fast})
        return
    say(first_line(result.fast))
    out.print(demo_table(result.report), markup=False)
    say(f"open {result.page}")

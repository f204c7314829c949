"""`bigain report`."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bigain.cli.console import print_json, warn
from bigain.cli.main import EXPERIMENTS, app, examples
from bigain.cli.options import json_of, words
from bigain.registry import miss

if TYPE_CHECKING:
    from bigain.experiments.report import Report


@app.command(
    rich_help_panel=EXPERIMENTS,
    epilog=examples(
        "bigain report runs/main-unet --out report",
        "bigain report runs/main-unet --against 'tome per_row'",
        "bigain report benchmarks/results/*.sqlite --format latex",
    ),
)
def report(
    records: Annotated[list[Path], typer.Argument(metavar="RECORDS", help="Run folders or record files.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Of the table: markdown, csv or latex.",
            autocompletion=words("markdown", "csv", "latex"),
        ),
    ] = "markdown",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare with the row of this name, value by value, or with the setting of this label; "
            "default: uncompressed.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Write the table and figures there, too.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a small copy of the one run's record, for keeping.")
    ] = None,
    as_json: Annotated[bool, json_of("a list of {title, experiment, sessions, rows, …}, one a record")] = False,
) -> None:
    """Print tables of what experiments found; with --out, draw their figures."""
    from bigain.commands.report import write_report
    from bigain.experiments.report import find_record, read_report
    from bigain.experiments.store import Store
    from bigain.experiments.tables import FORMATS

    if form not in FORMATS:
        raise ValueError(miss("format", form, list(FORMATS)))
    if (folder or record) and len(records) > 1:
        raise ValueError(f"--out and --record must be for one run, got {len(records)}")
    found = [read_report(place, against) for place in records]
    if as_json:
        print_json([contents(one) for one in found])
    else:
        typer.echo("\n".join(FORMATS[form](one) for one in found))
    if folder:
        write_report(found[0], folder)
        warn("[green]written:[/] ", f"table and figures in {folder}")
    if record:
        with closing(Store(find_record(records[0]), read_only=True)) as store:
            store.write_record(record)
        warn("[green]written:[/] ", f"the record {record}")


def contents(report: "Report") -> dict[str, Any]:
    """All but the pictures; shares with their value beside hits and n."""
    found = {key: value for key, value in vars(report).items() if key != "examples"}
    return found | {"rows": [{key: with_value(value) for key, value in vars(row).items()} for row in report.rows]}


def with_value(found: Any) -> Any:
    if hasattr(found, "as_json"):
        return found.as_json()
    return found._asdict() | {"value": found.value} if hasattr(found, "_asdict") else found

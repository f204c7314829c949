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
            help="Table format: markdown, csv or latex.",
            autocompletion=words("markdown", "csv", "latex"),
        ),
    ] = "markdown",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare with the row of this name, value by value, or with the setting of this label. "
            "Default: uncompressed.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Also write the table and figures here.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a small copy of the run's record, to keep.")
    ] = None,
    as_json: Annotated[bool, json_of("a list of {title, experiment, sessions, rows, …}, one per record")] = False,
) -> None:
    """Print the results of experiments as tables; with --out, draw figures too."""
    from bigain.commands.report import write_report
    from bigain.experiments.report import find_record, read_report
    from bigain.experiments.store import Store
    from bigain.experiments.tables import FORMATS

    if form not in FORMATS:
        raise ValueError(miss("format", form, list(FORMATS)))
    if (folder or record) and len(records) > 1:
        raise ValueError(f"--out and --record need exactly one run, got {len(records)}")
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
        warn("[green]written:[/] ", f"record {record}")


def contents(report: "Report") -> dict[str, Any]:
    """The report without its images; shares also have a value."""
    found = {key: value for key, value in vars(report).items() if key != "examples"}
    return found | {"rows": [{key: with_value(value) for key, value in vars(row).items()} for row in report.rows]}


def with_value(found: Any) -> Any:
    if hasattr(found, "as_json"):
        return found.as_json()
    return found._asdict() | {"value": found.value} if hasattr(found, "_asdict") else found

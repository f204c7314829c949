"""A report in a folder: its tables and figures."""

from pathlib import Path

from bigain.experiments.report import Report
from bigain.experiments.tables import ENDINGS, FORMATS
from bigain.plots import write_figures


def write_report(report: Report, folder: Path) -> None:
    """The table in all formats, and the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in FORMATS.items():
        (folder / f"table.{ENDINGS[name]}").write_text(render(report))
    write_figures(report, folder)

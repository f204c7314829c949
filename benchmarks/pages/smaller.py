"""The smaller experiments, one table each."""

from typing import NamedTuple

from text import RESULTS, table

from bigain.bench.report import read_report
from bigain.bench.tables import columns

SHOWN = ("setting", "accuracy %", "against uncompressed", "p (McNemar, Holm)", "same label %", "FD-fashion",
         "recognised %", "SSIM", "saved %")  # fmt: skip


class Small(NamedTuple):
    """A smaller experiment: which other row its rows are compared with, if not the uncompressed one."""

    stem: str
    against: str | None = None


SMALL = (Small("sharing-unet"),)


def smaller() -> str:
    return "\n\n".join([
        """## Smaller experiments

Each with the command that repeats it; records in `benchmarks/results`. "Same label": how often the answer is that of
the uncompressed model, right or wrong. With n = 200 an interval reaches some three to five points to each side: only
large differences show.""",
        *(section(small) for small in SMALL),
    ])  # fmt: skip


def section(small: Small) -> str:
    report = read_report(RESULTS / f"{small.stem}.sqlite", small.against)
    heads = [column for column in columns(report) if column.head in (*SHOWN, f"against {report.against}")]
    rows = [[signs(column.text(row)) for column in heads] for row in report.rows]
    n = max(row.accuracy.n for row in report.rows if row.accuracy)
    return f"""### {report.title}

{report.about} `bigain run benchmarks/experiments/bundled/{small.stem}.toml`,
model `{report.experiment["model"]}`, n = {n}, seed {report.experiment["seed"]}.

{table([column.head for column in heads], rows)}"""


def signs(cell: str) -> str:
    """A true minus in numbers; names keep their hyphens."""
    return cell.replace("-", "−") if cell[:1] in ("+", "-") else cell

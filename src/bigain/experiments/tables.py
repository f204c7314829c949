"""Tables of a report as Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bigain import escape
from bigain.experiments.report import Report, Row
from bigain.metrics.intervals import Estimate

CHUNKS = 6  # with fewer, the sign test has no interval of 95 %


class Column(NamedTuple):
    """A column of the table: its heading, and the text of a row, which may be empty."""

    head: str
    text: Callable[[Row], str]


def percent(value: Any) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def interval(found: Any) -> str:
    return "" if found is None else f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def signed(found: Estimate | None) -> str:
    if found is None:
        return ""
    return f"{100 * found.value:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def times(row: Row) -> str:
    """The speed-up with its interval, or the reason why there is none."""
    if row.speed is None:
        return row.speed_note or ""
    span = f"[{row.speed.low:.2f}, {row.speed.high:.2f}]" if row.speed.bounded else f"(n = {row.speed.n})"
    return f"{row.speed.value:.2f} {span}"


def shortened(row: Row) -> str:
    """`256 → 77`, or `256, keys → 64` if all queries stay."""
    return "; ".join(
        f"{tokens} → {queries}" if queries < tokens else f"{tokens}, keys → {keys}"
        for tokens, queries, keys in row.tokens or ()
    )


def distance_names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows if row.samples for name in row.samples.distances))


def similarity(row: Row) -> str:
    return f"{row.samples.ssim.value:.3f}" if row.samples and row.samples.ssim else ""


def spectral(row: Row) -> str:
    return f"{row.samples.spectra.distance:.2f}" if row.samples and row.samples.spectra else ""


def columns(report: Report) -> list[Column]:
    """The columns that are not empty."""
    fewer = any(row.image_saved not in (None, row.saved) for row in report.rows)  # sampler steps than others
    wanted = [
        Column("setting", lambda r: r.label),
        Column("accuracy %", lambda r: interval(r.accuracy)),
        Column("n", lambda r: str(r.accuracy.n) if r.accuracy else ""),
        Column("top-5 %", lambda r: interval(r.top5)),
        Column("LRAP %", lambda r: interval(r.ranking)),
        Column("macro AP %", lambda r: percent(r.macro)),
        Column(f"against {report.against}", lambda r: signed(r.change)),
        Column("p (McNemar, Holm)", lambda r: "" if r.p is None else f"{r.p:.2g}"),
        Column("same label %", lambda r: percent(r.agreement.value if r.agreement else None)),
        Column("class differences, error", lambda r: "" if r.difference_error is None else f"{r.difference_error:.2f}"),
        Column("evaluations", lambda r: "" if r.evaluations is None else f"{r.evaluations:.0f}"),
        *(
            column
            for name in distance_names(report.rows)
            for column in (distance_column(name), distance_change_column(name, report.against))
        ),
        Column(
            "recognised %",
            lambda r: percent(r.samples.recognised.value if r.samples and r.samples.recognised else None),
        ),
        Column("SSIM", similarity),
        Column("spectrum dB", spectral),
        Column("MFLOPs", lambda r: "" if r.flops is None else f"{r.flops / 1e6:.1f}"),
        Column("saved %", lambda r: percent(r.saved)),
        Column("saved of an image %", lambda r: percent(r.image_saved) if fewer else ""),
        Column("GFLOPs a decision", lambda r: "" if r.decision_flops is None else f"{r.decision_flops / 1e9:.2f}"),
        Column("saved of a decision %", lambda r: percent(r.decision_saved)),
        Column("speed-up", times),
        Column("tokens", shortened),
        *(paper_column(key) for key in paper_keys(report.rows)),
    ]
    return [column for column in wanted if any(column.text(row) for row in report.rows)]


def distance_column(name: str) -> Column:
    digits = decimals(name)

    def text(row: Row) -> str:
        found = row.samples.distances.get(name) if row.samples else None
        if row.samples_note:
            return row.samples_note
        return "" if found is None else f"{found.value:.{digits}f} ± {found.error:.{digits}f}"

    return Column(name, text)


def distance_change_column(name: str, against: str) -> Column:
    digits = decimals(name)

    def text(row: Row) -> str:
        found = (row.distance_changes or {}).get(name)
        return "" if found is None else f"{found.value:+.{digits}f} ± {found.error:.{digits}f}"

    return Column(f"{name} against {against}", text)


def decimals(name: str) -> int:
    return 4 if name.startswith("K") else 2


def paper_keys(rows: Sequence[Row]) -> list[str]:
    known = {"name", "source", *(key for row in rows for key in row.values)}
    return list(dict.fromkeys(key for row in rows for key in (row.paper or {}) if key not in known))


def paper_column(key: str) -> Column:
    return Column(f"paper: {key}", lambda row: str((row.paper or {}).get(key, "")))


def footnote(report: Report) -> str:
    """Model, data, seed, policy, intervals and versions."""
    found, session = report.experiment, (report.sessions or [{}])[-1]
    words = [
        f"model {found['model']}, data {found['data']}",
        f"seed {found['seed']}, policy {found['policy']}, {found['timesteps']} timesteps",
        "intervals 95 %: Wilson for shares, Tango for differences on the same images; ± one standard error",
    ]
    floors = {
        f"{name} of real against real {distance.floor:.2f} (n = {distance.n}; not comparable at another n)"
        for row in report.rows
        if row.samples
        for name, distance in row.samples.distances.items()
        if name.startswith("F")
    }
    words += [*sorted(floors), *cautions(report.rows)]
    words.append(f"bigain {session.get('bigain')}, torch {session.get('torch')}, {session.get('machine')}")
    return "; ".join(words) + "."


def cautions(rows: Sequence[Row]) -> list[str]:
    """Why some numbers are missing."""
    found = [f"{row.label}: {row.samples_note}, so there are no distances" for row in rows if row.samples_note]
    few = [row.speed.n for row in rows if row.speed and not row.speed.bounded]
    if few:
        found.append(f"speed-up over n = {min(few)} chunks: too few for an interval, which needs {CHUNKS}")
    notes = dict.fromkeys(row.speed_note for row in rows if row.speed_note)
    return found + [f"speed-up not shown ({note})" for note in notes]


def markdown(report: Report) -> str:
    heads = columns(report)
    lines = [f"## {escape.markdown(report.title)}", ""]
    lines += [escape.markdown(report.about), ""] if report.about else []
    lines += [markdown_line([column.head for column in heads]), "|" + "---|" * len(heads)]
    lines += [markdown_line([column.text(row) for column in heads]) for row in report.rows]
    return "\n".join([*lines, "", escape.markdown(footnote(report)), ""])


def markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape.markdown(cell) for cell in cells) + " |"


def comma_separated(report: Report) -> str:
    heads = columns(report)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([escape.csv_cell(column.head) for column in heads])
    writer.writerows([[escape.csv_cell(column.text(row)) for column in heads] for row in report.rows])
    return text.getvalue()


def latex(report: Report) -> str:
    heads = columns(report)

    def line(cells: list[str]) -> str:
        return " & ".join(escape.latex(cell) for cell in cells) + r" \\"

    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
            r"\toprule",
            line([column.head for column in heads]),
            r"\midrule",
            *(line([column.text(row) for column in heads]) for row in report.rows),
            r"\bottomrule",
            r"\end{tabular}",
            f"% {escape.latex(footnote(report))}",  # one line, so that all of it is a comment
            "",
        ]
    )


FORMATS: dict[str, Callable[[Report], str]] = {"markdown": markdown, "csv": comma_separated, "latex": latex}
ENDINGS = {"markdown": "md", "csv": "csv", "latex": "tex"}

"""What figures read from a report: points, styles of methods, captions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from bigain.plots.style import COLOURS, MARKERS, Look, NothingToDrawError
from bigain.registry import miss

if TYPE_CHECKING:
    from bigain.experiments.report import Report, Row

UNITS = {"accuracy": "accuracy, %", "LRAP": "label-ranking average precision, %"}


INTERVALS = {"accuracy": "95 % Wilson intervals", "LRAP": "95 % bootstrap intervals"}


class Point(NamedTuple):
    """A measured value with its interval."""

    value: float
    low: float
    high: float
    n: int


def uncompressed(report: "Report") -> "Row | None":
    return next((row for row in report.rows if row.label == report.dense), None)


def looks(report: "Report") -> dict[str, Look]:
    dense = uncompressed(report)
    names = dict.fromkeys(row.name for row in report.rows if row is not dense)
    found = {
        name: Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], "-" if i < len(COLOURS) else "--")
        for i, name in enumerate(names)
    }
    return found if dense is None else found | {dense.name: Look("black", "*")}


def measured(report: "Report") -> list[str]:
    """The measures of a report that curves can show: shares, and distances to real images."""
    shares = [what for what in UNITS if any(point(row, what) for row in report.rows)]
    return shares + list(dict.fromkeys(name for row in report.rows if row.samples for name in row.samples.distances))


def point(row: "Row", what: str) -> Point | None:
    """Shares in percent with their interval, distances with one standard error."""
    if what in UNITS:
        share = row.accuracy if what == "accuracy" else row.ranking
        return share and Point(100 * share.value, 100 * share.low, 100 * share.high, share.n)
    found = row.samples.distances.get(what) if row.samples else None
    return found and Point(found.value, found.value - found.error, found.value + found.error, found.n)


def check_measure(report: "Report", what: str) -> None:
    known = measured(report)
    if not known:
        raise NothingToDrawError(f"{report.title!r} has no results yet; create them with `bigain run FILE`")
    if what not in known:
        raise NothingToDrawError(miss("measure", what, known))


def caption(report: "Report", *words: str) -> str:
    found = report.experiment
    return ". ".join([*words, f"Model {found['model']}, data {found['data']}, seed {found['seed']}"]) + "."


def counted(counts: Iterable[int]) -> str:
    """n = 500, or n = 200 to 500."""
    found = sorted(set(counts))
    return f"n = {found[0]}" if len(found) == 1 else f"n = {found[0]} to {found[-1]}"


def label_of(what: str) -> str:
    return UNITS.get(what, f"{what} (lower is better)")


def interval_of(what: str) -> str:
    return INTERVALS.get(what, "± one standard error")

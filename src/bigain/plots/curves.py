"""Measures against a swept variable, against uncompressed, and against the cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bigain.escape import terminal
from bigain.plots.reading import (
    UNITS,
    Point,
    caption,
    check_measure,
    counted,
    interval_of,
    label_of,
    looks,
    measured,
    point,
    uncompressed,
)
from bigain.plots.style import GREY, Look, NothingToDrawError, add_legend, new_figure, styled
from bigain.registry import miss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bigain.experiments.report import Report, Row

VARIABLES = {
    "ratio": "ratio: share of tokens removed",
    "factor": "factor: keys reduced along each side",
    "alpha": "alpha: 0 average, 1 nearest token",
    "keep": "keep: share of tokens used as keys",
}


Cost = Literal["saved", "seconds"]


COSTS = {"saved": "FLOPs saved, %", "seconds": "milliseconds per evaluation"}


def draw_points(axes: "Axes", x: Sequence[float], points: Sequence[Point], look: Look, **style: Any) -> None:
    """Points with bars for their intervals."""
    value, low, high = (np.array([p[i] for p in points]) for i in range(3))
    bars: Any = {"yerr": (value - low, high - value), "elinewidth": 0.9, "capsize": 2}
    axes.errorbar(x, value, color=look.colour, marker=look.marker, linestyle=look.line, **bars, **style)


def draw_band(axes: "Axes", found: Point | None) -> None:
    """The uncompressed model across the whole width."""
    if found is not None:
        axes.axhspan(found.low, found.high, color="black", alpha=0.08, linewidth=0)
        axes.axhline(found.value, color="black", linewidth=1.2, label="uncompressed")


def draw_floor(axes: "Axes", report: "Report", what: str) -> None:
    found = [row.samples.distances[what].floor for row in report.rows if row.samples and what in row.samples.distances]
    if found and what not in UNITS:
        axes.axhline(found[0], color=GREY, linestyle=":", linewidth=1.2, label="real against real")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def sweeps(report: "Report", what: str) -> dict[str, dict[str, list["Row"]]]:
    """Variable -> line -> its rows in the order of the variable, for each variable with a line of two points."""
    found: dict[str, dict[str, list[Row]]] = {}
    rows = [row for row in report.rows if point(row, what)]
    for variable in dict.fromkeys(key for row in rows for key, value in row.values.items() if is_number(value)):
        lines: dict[str, list[Row]] = {}
        for row in rows:
            if is_number(row.values.get(variable)):
                rest = [f"{key} {value}" for key, value in row.values.items() if key != variable]
                lines.setdefault(", ".join([row.name, *rest]), []).append(row)
        if any(len(line) > 1 for line in lines.values()):
            found[variable] = {name: sorted(line, key=lambda r: r.values[variable]) for name, line in lines.items()}
    return found


@styled
def curves(report: "Report", what: str = "accuracy") -> "Figure":
    """How does a measure change with a swept variable? One panel per variable, one line per method."""
    check_measure(report, what)
    found = sweeps(report, what)
    if not found:
        raise NothingToDrawError(
            f"{report.title!r} has no method with two values of a swept variable, so {what} has no curve"
        )
    dense, look = uncompressed(report), looks(report)
    points = [p for row in report.rows if (p := point(row, what))]
    band = point(dense, what) if dense else None
    shown = "Bars and band" if band else "Bars"
    words = caption(report, f"{shown}: {interval_of(what)}, {counted(p.n for p in points)}")
    title = f"{report.title}: {what} against {' and '.join(found)}"
    figure = new_figure(2.4 + 3.6 * len(found), 4.0, title, words)
    panels = np.atleast_1d(figure.subplots(1, len(found), sharey=True))
    for axes, (variable, lines) in zip(panels, found.items(), strict=True):
        values = sorted({row.values[variable] for line in lines.values() for row in line})
        draw_band(axes, band)
        draw_floor(axes, report, what)
        for i, (name, line) in enumerate(lines.items()):
            shift = 0.015 * (values[-1] - values[0]) * (i - (len(lines) - 1) / 2)  # so that bars do not hide each other
            x = [row.values[variable] + shift for row in line]
            draw_points(axes, x, [p for row in line if (p := point(row, what))], look[line[0].name], label=name)
        axes.set_xticks(values, [f"{value:g}".replace("-", "−") for value in values])
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(VARIABLES.get(variable, variable))
    panels[0].set_ylabel(label_of(what))
    add_legend(figure, panels)
    return figure


@styled
def changes(report: "Report") -> "Figure":
    """What does each setting cost in accuracy, on the same images? A forest plot."""
    rows = [row for row in report.rows if row.change]
    if not rows:
        raise NothingToDrawError(f"{report.title!r} has no setting to compare with {report.against} on the same images")
    look = looks(report)
    found = [Point(100 * c.value, 100 * c.low, 100 * c.high, c.n) for row in rows if (c := row.change)]
    intervals = f"95 % Tango intervals on the same images, {counted(p.n for p in found)}"
    words = caption(report, f"{intervals}; filled: p < 0.05 (McNemar, Holm over all settings)")
    title = f"{report.title}: change of accuracy against {report.against}"
    figure = new_figure(8.0, 1.5 + 0.24 * len(rows), title, words)
    axes = figure.subplots()
    for y, (row, p) in enumerate(zip(rows, found, strict=True)):
        style: Any = {"color": look[row.name].colour, "marker": look[row.name].marker}
        fill = style["color"] if row.p is not None and row.p < 0.05 else "white"
        axes.errorbar(p.value, y, xerr=[[p.value - p.low], [p.high - p.value]], **style, mfc=fill, capsize=2)
        text = f"{p.value:+.1f} [{p.low:+.1f}, {p.high:+.1f}]".replace("-", "−")
        axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        if y and row.name != rows[y - 1].name:
            axes.axhline(y - 0.5, color="#CCCCCC", linewidth=0.6)
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [terminal(row.label) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("change of accuracy, percentage points")
    return figure


def cost_of(row: "Row", cost: Cost) -> float | None:
    found, scale = (row.saved, 100) if cost == "saved" else (row.seconds, 1000)
    return None if found is None else scale * found


@styled
def pareto(report: "Report", cost: Cost = "saved") -> "Figure":
    """What is the best result at a cost? One panel per measure, with the Pareto front of the values."""
    if cost not in COSTS:
        raise ValueError(miss("cost", cost, COSTS))
    found = {
        what: [(x, p, row) for row in report.rows if (p := point(row, what)) and (x := cost_of(row, cost)) is not None]
        for what in measured(report)
        if not what.startswith("K")
    }
    found = {what: places for what, places in found.items() if len(places) > 1}
    if not found:
        raise NothingToDrawError(f"{report.title!r} has no two settings with a result and {COSTS[cost]}")
    bars = [f"{what} {interval_of(what)}, {counted(p.n for _, p, _ in places)}" for what, places in found.items()]
    reach = "this saving or more" if cost == "saved" else "this cost or less"
    words = caption(report, f"Bars: {'; '.join(bars)}", f"Grey: the best value at {reach}")
    title = f"{report.title}: {' and '.join(found)} against {COSTS[cost].split(',')[0]}"
    figure = new_figure(2.4 + 3.6 * len(found), 4.0, title, words)
    panels = np.atleast_1d(figure.subplots(1, len(found)))
    dense, look = uncompressed(report), looks(report)
    for axes, (what, places) in zip(panels, found.items(), strict=True):
        draw_front(axes, [(x, p.value) for x, p, _ in places], more=cost == "saved", high=what in UNITS)
        for name in dict.fromkeys(row.name for _, _, row in places):
            line = [(x, p) for x, p, row in places if row.name == name]
            label = "uncompressed" if dense and name == dense.name else name
            draw_points(axes, [x for x, _ in line], [p for _, p in line], look[name], linewidth=0.8, label=label)
        axes.set_xlabel(COSTS[cost])
        axes.set_ylabel(label_of(what))
    add_legend(figure, panels)
    return figure


def draw_front(axes: "Axes", places: list[tuple[float, float]], *, more: bool, high: bool) -> None:
    """The best value at each cost: with `more` a higher cost is better, with `high` higher values are better."""
    side, up = (-1 if more else 1), (1 if high else -1)
    front: list[tuple[float, float]] = []
    for x, y in sorted(places, key=lambda place: (side * place[0], -up * place[1])):
        if not front or up * y > up * front[-1][1]:
            front.append((x, y))
    front.append((max(places, key=lambda place: side * place[0])[0], front[-1][1]))
    axes.plot(*zip(*front, strict=True), drawstyle="steps-post", color="#CCCCCC", linewidth=4, zorder=1)

"""Figures from reports: they lay out what was measured and compute nothing else."""

import functools
import io
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec

import numpy as np
from PIL import Image

from bigain.registry import miss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bigain.bench.report import Report, Row

P = ParamSpec("P")

# told apart by the colour-blind, with a marker for each; after the ninth method they begin anew with broken lines
COLOURS = ("#332288", "#CC6677", "#117733", "#DDAA33", "#88CCEE", "#882255", "#44AA99", "#AA4499", "#777711")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#555555"
STYLE = {
    "figure.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "svg.hashsalt": "bigain",  # otherwise the identifiers in a file differ each time
}
METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
VARIABLES = {
    "ratio": "ratio: share of tokens removed",
    "factor": "factor: times fewer keys along a side",
    "alpha": "alpha: 0 average, 1 nearest token",
    "keep": "keep: share of tokens used as keys",
}
UNITS = {"accuracy": "accuracy, %", "LRAP": "label-ranking average precision, %"}
INTERVALS = {"accuracy": "95 % Wilson intervals", "LRAP": "95 % bootstrap intervals"}


class NothingToDrawError(ValueError):
    """The report lacks what a figure shows."""


class Point(NamedTuple):
    """A measured value with its interval."""

    value: float
    low: float
    high: float
    n: int


class Look(NamedTuple):
    """Of a method, the same in all figures of a report."""

    colour: str
    marker: str = ""
    line: str = "-"


def our_style() -> AbstractContextManager[None]:
    """Our style for a while, whatever the user's is."""
    try:
        from matplotlib import style
    except ModuleNotFoundError:
        raise ModuleNotFoundError("figures need matplotlib: pip install bigain[plots]") from None
    return style.context(["default", STYLE])


def styled(draw: Callable[P, "Figure"]) -> Callable[P, "Figure"]:
    """Draw in our style and lay out once: doing so again when a file is written would move things a little."""

    @functools.wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        with our_style():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure

    return drawing


def new_figure(width: float, height: float, title: str, caption: str, top: float | None = None) -> "Figure":
    """An empty figure in inches with a title and a caption; with a place for the title nothing is laid out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained" if top is None else None)
    FigureCanvasAgg(figure)
    title, caption = wrapped(title, int(10 * width)), wrapped(caption, int(14.5 * width))
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left", y=top)
    figure.supxlabel(caption, fontsize=7.5, color=GREY, x=0.01, ha="left")
    return figure


def wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False)


def save_figure(figure: "Figure", path: Path) -> Path:
    """Write a PNG or SVG file, by the ending of its name: the same figure gives the same bytes."""
    form = path.suffix.removeprefix(".")
    if form not in METADATA:
        raise ValueError(miss("format of figures", form, METADATA))
    path.parent.mkdir(parents=True, exist_ok=True)
    with our_style():
        figure.savefig(path, metadata=METADATA[form])
    return path


def uncompressed(report: "Report") -> "Row | None":
    """The row that the others are compared with: it has no change while they have, or else it saves nothing."""
    if any(row.change for row in report.rows):
        return next((row for row in report.rows if row.accuracy and not row.change), None)
    return next((row for row in report.rows if row.saved == 0 and not row.values), None)


def looks(report: "Report") -> dict[str, Look]:
    dense = uncompressed(report)
    names = dict.fromkeys(row.name for row in report.rows if row is not dense)
    found = {
        name: Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], "-" if i < len(COLOURS) else "--")
        for i, name in enumerate(names)
    }
    return found if dense is None else found | {dense.name: Look("black", "*")}


def measured(report: "Report") -> list[str]:
    """What curves can show of a report: shares, and distances to real images."""
    shares = [what for what in UNITS if any(point(row, what) for row in report.rows)]
    samples = [item for row in report.rows for item in (row.samples or {}).items()]
    return shares + list(dict.fromkeys(key for key, value in samples if isinstance(value, dict) and "floor" in value))


def point(row: "Row", what: str) -> Point | None:
    """Shares in percent with their interval, distances with one standard error."""
    if what in UNITS:
        share = row.accuracy if what == "accuracy" else row.ranking
        return share and Point(100 * share.value, 100 * share.low, 100 * share.high, share.n)
    found = (row.samples or {}).get(what)
    return found and Point(found["value"], found["value"] - found["error"], found["value"] + found["error"], found["n"])


def check_measure(report: "Report", what: str) -> None:
    known = measured(report)
    if not known:
        raise NothingToDrawError(f"{report.title!r} has no results yet; `bigain run FILE` makes them")
    if what not in known:
        raise NothingToDrawError(miss(f"measure in {report.title!r}", what, known))


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
    found = [row.samples[what]["floor"] for row in report.rows if row.samples and what in row.samples]
    if found and what not in UNITS:
        axes.axhline(found[0], color=GREY, linestyle=":", linewidth=1.2, label="real against real")


def add_legend(figure: "Figure", panels: Iterable["Axes"]) -> None:
    """One legend for all panels, to the right of them."""
    found = {text: handle for axes in panels for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(found.values(), found.keys(), loc="outside right center")


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
    """How does a measure change with a swept variable? One panel a variable, one line a method."""
    check_measure(report, what)
    found = sweeps(report, what)
    if not found:
        raise NothingToDrawError(f"{report.title!r} has no method with two values of a number, so {what} has no curve")
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
        raise NothingToDrawError(
            f"{report.title!r} has no setting to compare with an uncompressed one on the same images"
        )
    look = looks(report)
    found = [Point(100 * c.value, 100 * c.low, 100 * c.high, c.n) for row in rows if (c := row.change)]
    intervals = f"95 % Tango intervals on the same images, {counted(p.n for p in found)}"
    words = caption(report, f"{intervals}; filled: p < 0.05 (McNemar, Holm over all settings)")
    title = f"{report.title}: change of accuracy against uncompressed"
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
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("change of accuracy, percentage points")
    return figure


Cost = Literal["saved", "seconds"]
COSTS = {"saved": "FLOPs saved, %", "seconds": "milliseconds an evaluation"}


def cost_of(row: "Row", cost: Cost) -> float | None:
    found, scale = (row.saved, 100) if cost == "saved" else (row.seconds, 1000)
    return None if found is None else scale * found


@styled
def pareto(report: "Report", cost: Cost = "saved") -> "Figure":
    """What is the best that can be had at a cost? One panel a measure; the front is that of the values themselves."""
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
    """The best value to be had at each cost: `more` of the cost is better, `high` values are better."""
    side, up = (-1 if more else 1), (1 if high else -1)
    front: list[tuple[float, float]] = []
    for x, y in sorted(places, key=lambda place: (side * place[0], -up * place[1])):
        if not front or up * y > up * front[-1][1]:
            front.append((x, y))
    front.append((max(places, key=lambda place: side * place[0])[0], front[-1][1]))
    axes.plot(*zip(*front, strict=True), drawstyle="steps-post", color="#CCCCCC", linewidth=4, zorder=1)


@styled
def spectra(report: "Report") -> "Figure":
    """Which frequencies do generated images lack, or have too much of? One panel a method."""
    rows = [row for row in report.rows if row.samples and "real_spectrum" in row.samples]
    if not rows:
        raise NothingToDrawError(f"{report.title!r} has no spectra; the task generate measures them")
    dense, look = uncompressed(report), looks(report)
    names = list(dict.fromkeys(row.name for row in rows if row is not dense)) or [rows[0].name]
    across = min(len(names), 4)
    down = -(-len(names) // across)
    words = caption(
        report,
        "0 dB: as much as in real images. In the legends: root mean square, dB",
        counted(row.samples["n"] for row in rows if row.samples),
    )
    title = f"{report.title}: power of generated against real images"
    figure = new_figure(0.9 + 2.3 * max(across, 2), 1.4 + 2.0 * down, title, words)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        own = [row for row in rows if row.name == name and row is not dense]
        axes.axhline(0, color=GREY, linewidth=0.8)
        for i, row in enumerate(own):
            text = ", ".join(f"{key} {value}" for key, value in row.values.items()) or row.name
            draw_spectrum(axes, row, text, color=look[name].colour, alpha=(i + 1) / len(own))
        for row in [r for r in rows if r is dense]:
            draw_spectrum(axes, row, "uncompressed", color="black", linestyle="--", linewidth=1)
        axes.set_title(name if own else "uncompressed", loc="left", fontweight="bold")
        axes.legend(loc="lower left", fontsize=6.5, handlelength=1.2, borderaxespad=0.2, labelspacing=0.2)
    low, high = panels[0].get_ylim()
    share = min(0.8, 0.07 * max(len(axes.lines) for axes in panels))  # of the height, for the legends
    panels[0].set_ylim(low - share / (1 - share) * (high - low), high)
    for axes in panels[len(names) :]:
        axes.remove()
    for axes in panels[len(names) - across : len(names)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("frequency, cycles a pixel")
    for axes in panels[::across]:
        axes.set_ylabel("generated − real, dB")
    return figure


def draw_spectrum(axes: "Axes", row: "Row", label: str, **style: Any) -> None:
    """The rings over which the spectral distance is taken: above zero, up to half a cycle a pixel."""
    found: Any = row.samples
    frequency = np.array(found["spectrum"]["frequency"])
    rings = (frequency > 0) & (frequency <= 0.5)
    difference = np.array(found["spectrum"]["decibels"]) - np.array(found["real_spectrum"])
    axes.plot(frequency[rings], difference[rings], label=f"{label}: {found['spectral_distance']:.2f}", **style)


@styled
def gallery(report: "Report", labels: Sequence[str] | None = None, columns: int = 10) -> "Figure":
    """What does compression do to one and the same image? One setting a row, one seed and subject a column."""
    found = {label: data for label, data in report.examples.items() if data}
    if not found:
        raise NothingToDrawError(f"{report.title!r} has no generated images; the task generate makes them")
    chosen = list(found) if labels is None else list(labels)
    for label in chosen:
        if label not in found:
            raise NothingToDrawError(miss("setting with images", label, found))
    across = min([columns, *(len(found[label]) for label in chosen)])
    pictures = [[as_pixels(data) for data in found[label][:across]] for label in chosen]
    sheet = np.concatenate([np.concatenate(row, 1) for row in pictures])
    side = sheet.shape[1] / across
    words = caption(report, f"Images 1 to {across} of each setting; a column has one seed and one subject")
    title = f"{report.title}: the same seeds under each setting"
    cell, left, edge = 0.62, 0.3 + 0.075 * max(len(label) for label in chosen), 0.45  # inches
    width, height = left + cell * across + 0.1, edge + cell * len(chosen) + edge
    figure = new_figure(width, height, title, words, top=1 - 0.05 / height)
    axes = figure.add_axes((left / width, edge / height, cell * across / width, cell * len(chosen) / height))
    axes.imshow(sheet, interpolation="nearest", aspect="auto")
    axes.set_xticks([])
    dense = uncompressed(report)
    names = ["uncompressed" if dense and label == dense.label else label for label in chosen]
    axes.set_yticks([(i + 0.5) * side - 0.5 for i in range(len(chosen))], names)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return figure


def as_pixels(data: bytes) -> np.ndarray:
    """A PNG with a white edge: -> (h, w, 3)."""
    with Image.open(io.BytesIO(data)) as opened:
        pixels = np.array(opened.convert("RGB"))
    edge = max(1, len(pixels) // 28)
    return np.pad(pixels, ((edge, edge), (edge, edge), (0, 0)), constant_values=255)


@styled
def loss_curve(card: dict[str, Any]) -> "Figure":
    """How did a bundled model learn? From its card."""
    from matplotlib.ticker import LogLocator

    curve = card.get("curve")
    if not curve:
        raise NothingToDrawError(f"the card of {card.get('name')} has no curve; only noise predictors have one")
    last = curve[-1]
    words = f"Last: training {last['loss']:.4f}, validation {last['validation']:.4f} (averaged weights, fixed noise)."
    figure = new_figure(6.0, 3.4, f"{card['name']}: loss during training", words)
    axes = figure.subplots()
    samples = [place["samples"] / 1000 for place in curve]
    for key, text, colour in (("loss", "training", COLOURS[1]), ("validation", "validation", COLOURS[0])):
        axes.plot(samples, [place[key] for place in curve], color=colour, marker=".", label=text)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 6)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("training samples, thousands")
    axes.set_ylabel("mean squared error of the noise")
    axes.legend()
    return figure


def write_figures(report: "Report", folder: Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """All figures that the report has data for; the same report gives the same bytes."""
    drawings: dict[str, Callable[[Report], Figure]] = {
        what: functools.partial(curves, what=what) for what in measured(report)
    }
    drawings |= {"changes": changes, "pareto": pareto, "spectra": spectra, "gallery": gallery}
    paths = []
    for name, draw in drawings.items():
        try:
            figure = draw(report)
        except NothingToDrawError:
            continue
        paths += [save_figure(figure, folder / f"{name}.{form}") for form in formats]
    return paths

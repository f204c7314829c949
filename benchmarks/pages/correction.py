"""What group correction gives: a table for each model, and the figure of its page."""

from pathlib import Path
from typing import TYPE_CHECKING

from contrasts import compared
from text import IMAGES, RESULTS, signs, table

from bigain.experiments.report import Report, Row
from bigain.experiments.tables import columns, footnote
from bigain.plots import save_figure
from bigain.plots.style import COLOURS, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODELS = {"fashion-dit": "correction-dit", "cifar-unet": "correction-cifar", "fashion-unet": "correction-unet"}
SHOWN = ("setting", "accuracy %", "n", "against uncompressed", "same label %", "class differences, error",
         "saved of a decision %")  # fmt: skip
DRAWN = ("gated_merge, ratio 0.7", "kv_downsample, factor 2")
SHARED, CORRECTED = "#B8BDC7", COLOURS[0]


def records() -> dict[str, Path]:
    """Those that are there."""
    found = {model: RESULTS / f"{stem}.sqlite" for model, stem in MODELS.items()}
    return {model: path for model, path in found.items() if path.is_file()}


def correction() -> str:
    return "\n\n".join(section(model, compared(path)) for model, path in records().items())


def steps() -> str:
    """Generation: compressed and corrected rows beside the uncompressed model with fewer steps."""
    report = compared(RESULTS / "steps-dit.sqlite")
    shown = ("setting", "FD-fashion", "FD-fashion against uncompressed", "SSIM", "recognised %")
    heads = [column for column in columns(report) if column.head in shown]
    rows = [[column.text(row) if column.head == "setting" else signs(column.text(row)) for column in heads]
            for row in report.rows]  # fmt: skip
    return f"""{table([column.head for column in heads], rows)}

{footnote(report)} `bigain run benchmarks/experiments/bundled/steps-dit.toml`."""


def section(model: str, report: Report) -> str:
    heads = [column for column in columns(report) if column.head in SHOWN]
    rows = [[signs(column.text(row)) if column.head != "setting" else column.text(row) for column in heads]
            for row in report.rows]  # fmt: skip
    stem = MODELS[model]
    return f"""### {model}

`bigain run benchmarks/experiments/bundled/{stem}.toml`, record `benchmarks/results/{stem}.sqlite`. {beside(report)}

{table([column.head for column in heads], rows)}

{footnote(report)}"""


def beside(report: Report) -> str:
    """The corrected settings that keep the accuracy, beside fewer trials at the same cost."""
    kept = [row for row in report.rows if "corrected" in row.name and row.change and row.change.high >= 0]
    fewer = [row for row in report.rows if row.name == "fewer trials" and row.change]
    best = max(kept, key=lambda row: row.decision_saved or 0, default=None)
    if best is None:
        return "No corrected setting keeps the accuracy within its interval."
    words = (
        f"The corrected setting that saves most without a loss beyond its interval is `{best.label}`: "
        f"{percent(best.decision_saved)} of the FLOPs of a decision, {points(best)}, {percent(same(best))} same labels."
    )
    others = "; ".join(
        f"{row.values['trials']} saves {percent(row.decision_saved)}: {points(row)}, {percent(same(row))} same labels"
        for row in fewer
    )
    return (
        f"{words} It was picked on these images, and an interval that reaches zero is no proof of no loss. "
        f"The uncompressed model with fewer trials: {others}."
    )


def same(row: Row) -> float | None:
    return row.agreement.value if row.agreement else None


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def points(row: Row) -> str:
    found = row.change
    if found is None:
        return "–"
    return signs(f"{100 * found.value:+.1f} points [{100 * found.low:+.1f}, {100 * found.high:+.1f}]")


@styled
def idea() -> "Figure":
    """The computation for a group on the left; labels that stay the same on the right."""
    figure = new_figure(9.6, 3.4, "One dense row corrects all classes of a trial", words(), top=0.97)
    draw_scheme(figure.add_axes((0.01, 0.2, 0.5, 0.68)))
    draw_labels(figure.add_axes((0.7, 0.28, 0.28, 0.58)))
    return figure


def words() -> str:
    counts = sorted({row.agreement.n for path in records().values() for row in compared(path).rows if row.agreement})
    span = f"n = {counts[0]} to {counts[-1]}" if counts else "not measured yet"
    return (
        "Left: M merges, U unmerges, F is attention or an MLP; the mean row m is computed dense and compressed, its "
        "error is added to every row. Right: share of test images with the label of the uncompressed model, one plan "
        f"for all classes, grey without and blue with the correction, {span}."
    )


def draw_scheme(axes: "Axes") -> None:
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 5)
    axes.axis("off")
    rows = [("class 1", 4.4), ("class 2", 3.5), ("class K", 2.6), ("mean m", 1.4)]
    for name, y in rows:
        mean = name == "mean m"
        colour = CORRECTED if mean else "black"
        box(axes, 0.9, y, name, colour)
        arrow(axes, 1.75, y, 2.6, y)
        box(axes, 3.5, y, "U F(M m)" if mean else "U F(M x)", colour)
        if not mean:
            arrow(axes, 4.4, y, 8.0, y, colour=GREY)
    axes.text(0.9, 3.05, "⋮", ha="center", va="center")
    box(axes, 3.5, 0.5, "F(m), dense", CORRECTED)
    arrow(axes, 1.5, 1.15, 2.5, 0.62, CORRECTED)
    box(axes, 6.2, 0.95, "F(m) − U F(M m)", CORRECTED)
    arrow(axes, 4.5, 0.5, 5.0, 0.8, CORRECTED)
    arrow(axes, 4.4, 1.4, 5.0, 1.12, CORRECTED)
    for _, y in rows[:3]:
        axes.plot([7.2, 7.2], [1.2, y], color=CORRECTED, linewidth=1)
        axes.text(7.2, y, "+", ha="center", va="center", color=CORRECTED, fontsize=13, fontweight="bold",
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
        axes.text(8.1, y, "corrected", va="center", fontsize=8)


def box(axes: "Axes", x: float, y: float, text: str, colour: str) -> None:
    frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colour}
    axes.text(x, y, text, ha="center", va="center", fontsize=8, color=colour, bbox=frame)


def arrow(axes: "Axes", x: float, y: float, to_x: float, to_y: float, colour: str = GREY) -> None:
    axes.annotate("", (to_x, to_y), (x, y), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1})


def draw_labels(axes: "Axes") -> None:
    """Bars of the pairs that differ in the correction only."""
    pairs = [(model, row, other) for model, path in records().items() for row, other in pairs_of(compared(path))
             if row.label in DRAWN]  # fmt: skip
    for y, (_, shared, corrected) in enumerate(pairs):
        for row, colour, offset in ((shared, SHARED, -0.19), (corrected, CORRECTED, 0.19)):
            value = 100 * row.agreement.value
            axes.barh(y + offset, value, 0.36, color=colour)
            axes.text(value - 1, y + offset, f"{value:.0f} %", ha="right", va="center", fontsize=7,
                      color="white" if colour == CORRECTED else "black")  # fmt: skip
    names = [f"{model}, {shared.label.split(',')[0]}" for model, shared, _ in pairs]
    axes.set_yticks(range(len(pairs)), names, fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlim(50, 100)
    axes.set_xlabel("same label as uncompressed, %")
    axes.grid(visible=False, axis="y")


def pairs_of(report: Report) -> list[tuple[Row, Row]]:
    known = {row.label: row for row in report.rows if row.agreement}
    found = [(row, known.get(row.label.replace(row.name, f"{row.name} corrected", 1))) for row in known.values()]
    return [(shared, corrected) for shared, corrected in found if corrected is not None]


def draw() -> None:
    if records():
        save_figure(idea(), IMAGES / "correction.png")

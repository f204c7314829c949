"""The chart of `bigain bench`."""

from typing import TYPE_CHECKING

from bigain.bench.runners import Bench
from bigain.bench.speed import Machine, Measured
from bigain.bench.speed_report import name_of, title
from bigain.bench.stopwatch import PARTS
from bigain.plots.style import new_figure, styled
from bigain.registry import NONE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"plan": "#CC6677", "merge": "#DDAA33", "attention": "#332288", "unmerge": "#117733", "the rest": "#BBBBBB"}


@styled
def speed_chart(rows: list[Measured], bench: Bench, machine: Machine) -> "Figure":
    """Bars of a step's time and its parts; marks at the limit set by FLOPs."""
    words = (
        f"Medians of {bench.rounds} interleaved rounds; whiskers: quartiles. Marks: the time of the uncompressed step, "
        f"minus the share of FLOPs saved."
    )
    figure = new_figure(8.0, 1.4 + 0.34 * len(rows), title(bench, machine), words)
    axes = figure.subplots()
    dense = {row.mode: row.seconds for row in rows if row.name == NONE}
    for y, row in enumerate(rows):
        left = 0.0
        for part, width in stacked(row).items():
            label = part if y == 0 else None
            axes.barh(y, 1e3 * width, left=1e3 * left, color=COLOURS[part], height=0.7, label=label)
            left += width
        low, high = row.quartiles
        spread = [[max(0.0, row.seconds - low) * 1e3], [max(0.0, high - row.seconds) * 1e3]]
        axes.errorbar(1e3 * row.seconds, y, xerr=spread, color="black", capsize=2, linewidth=0.8)
        axes.plot(1e3 * dense[row.mode] / row.bound, y, marker="|", color="black", markersize=14)
    axes.set_yticks(range(len(rows)), [name_of(row) for row in rows])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("milliseconds per step")
    figure.legend(loc="outside right center")
    return figure


def stacked(row: Measured) -> dict[str, float]:
    """Parts and the rest of a step; compiled code has no parts."""
    parts = dict(row.parts) if row.parts else dict.fromkeys(PARTS, 0.0)
    return {**parts, "the rest": max(0.0, row.seconds - sum(parts.values()))}

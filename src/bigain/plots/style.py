"""The style of figures, and writing them to files."""

import functools
import textwrap
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from bigain.escape import terminal
from bigain.registry import miss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")


# safe for colour-blind readers, with a marker for each; after nine methods they repeat with broken lines
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
    "text.parse_math": False,  # a $ in a name is a $
    "svg.hashsalt": "bigain",  # otherwise the identifiers in a file differ each time
}


METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


class NothingToDrawError(ValueError):
    """The report lacks what a figure shows."""


class Look(NamedTuple):
    """Colour, marker and line of a method, the same in all figures of a report."""

    colour: str
    marker: str = ""
    line: str = "-"


def our_style() -> AbstractContextManager[None]:
    """Use our style inside the `with` block."""
    try:
        from matplotlib import style
    except ModuleNotFoundError:
        raise ModuleNotFoundError("figures need matplotlib: pip install bigain[plots]") from None
    return style.context(["default", STYLE])


def styled(draw: Callable[P, "Figure"]) -> Callable[P, "Figure"]:
    """Draw in our style and lay out once: a second layout on writing would move things slightly."""

    @functools.wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        with our_style():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure

    return drawing


def new_figure(width: float, height: float, title: str, caption: str, top: float | None = None) -> "Figure":
    """An empty figure, sized in inches, with title and caption; with `top` there is no automatic layout."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained" if top is None else None)
    FigureCanvasAgg(figure)
    title, caption = wrapped(terminal(title), int(10 * width)), wrapped(terminal(caption), int(14.5 * width))
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left", y=top)
    figure.supxlabel(caption, fontsize=7.5, color=GREY, x=0.01, ha="left")
    return figure


def wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False)


def save_figure(figure: "Figure", path: Path) -> Path:
    """Write a PNG or SVG file, by its suffix; the same figure gives the same bytes."""
    form = path.suffix.removeprefix(".")
    if form not in METADATA:
        raise ValueError(miss("figure format", form, METADATA))
    path.parent.mkdir(parents=True, exist_ok=True)
    with our_style():
        figure.savefig(path, metadata=METADATA[form])
    return path


def add_legend(figure: "Figure", panels: Iterable["Axes"]) -> None:
    """One legend for all panels, to the right of them."""
    found = {text: handle for axes in panels for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(found.values(), found.keys(), loc="outside right center")

"""Generated images themselves: their spectra, and the same seeds side by side."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from bigain.escape import terminal
from bigain.plots.reading import caption, counted, looks, uncompressed
from bigain.plots.style import GREY, NothingToDrawError, new_figure, styled
from bigain.registry import miss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bigain.experiments.report import Report, Row


@styled
def spectra(report: "Report") -> "Figure":
    """Which frequencies do generated images lack, or have too much of? One panel per method."""
    rows = [row for row in report.rows if row.samples and row.samples.spectra]
    if not rows:
        raise NothingToDrawError(f"{report.title!r} has no spectra; add the task generate")
    dense, look = uncompressed(report), looks(report)
    names = list(dict.fromkeys(row.name for row in rows if row is not dense)) or [rows[0].name]
    across = min(len(names), 4)
    down = -(-len(names) // across)
    words = caption(
        report,
        "0 dB: as much as in real images. In the legends: root mean square, dB",
        counted(row.samples.n for row in rows if row.samples),
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
        axes.set_xlabel("frequency, cycles per pixel")
    for axes in panels[::across]:
        axes.set_ylabel("generated − real, dB")
    return figure


def draw_spectrum(axes: "Axes", row: "Row", label: str, **style: Any) -> None:
    """The rings over which the spectral distance is taken: above zero, up to half a cycle per pixel."""
    if row.samples is None or row.samples.spectra is None:
        return
    found = row.samples.spectra
    frequency = np.array(found.frequency)
    rings = (frequency > 0) & (frequency <= 0.5)
    difference = np.array(found.decibels) - np.array(found.real)
    axes.plot(frequency[rings], difference[rings], label=f"{label}: {found.distance:.2f}", **style)


@styled
def gallery(report: "Report", labels: Sequence[str] | None = None, columns: int = 10) -> "Figure":
    """What does compression do to the same image? One setting per row, one seed and subject per column."""
    found = {label: data for label, data in report.examples.items() if data}
    if not found:
        raise NothingToDrawError(f"{report.title!r} has no generated images; add the task generate")
    chosen = list(found) if labels is None else list(labels)
    for label in chosen:
        if label not in found:
            raise NothingToDrawError(miss("setting", label, found))
    across = min([columns, *(len(found[label]) for label in chosen)])
    pictures = [[as_pixels(data) for data in found[label][:across]] for label in chosen]
    sheet = np.concatenate([np.concatenate(row, 1) for row in pictures])
    side = sheet.shape[1] / across
    words = caption(report, f"Images 1 to {across} of each setting; one seed and subject per column")
    title = f"{report.title}: the same seeds under each setting"
    cell, left, edge = 0.62, 0.3 + 0.075 * max(len(label) for label in chosen), 0.45  # inches
    width, height = left + cell * across + 0.1, edge + cell * len(chosen) + edge
    figure = new_figure(width, height, title, words, top=1 - 0.05 / height)
    axes = figure.add_axes((left / width, edge / height, cell * across / width, cell * len(chosen) / height))
    axes.imshow(sheet, interpolation="nearest", aspect="auto")
    axes.set_xticks([])
    dense = uncompressed(report)
    names = ["uncompressed" if dense and label == dense.label else terminal(label) for label in chosen]
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

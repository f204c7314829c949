"""The two figures that open README.md and the results: before and after, and accuracy against FLOPs saved."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from contrasts import compared
from performance import LOCAL, NONE, SIDES, by_name
from PIL import Image
from text import IMAGES, RECORDS, read, signs

from bigain.data import load_data
from bigain.experiments.report import Report, Row
from bigain.plots import save_figure
from bigain.plots.style import COLOURS, GREY, MARKERS, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODELS = {"fashion-unet": RECORDS / "main-unet.sqlite", "fashion-dit": RECORDS / "main-dit.sqlite"}
COMPRESSED = "gated_merge local, ratio 0.7"  # LOCAL as the records of the bundled models call it
PICTURED = ("trouser", "pullover", "dress", "sneaker", "bag", "ankle boot")
SHOWN = ("kv_downsample", "gated_merge", "block_merge", "tome per_call", "tome per_row")
DENSE_COLOUR, OUR_COLOUR = "#B8BDC7", COLOURS[0]


@styled
def before_after() -> "Figure":
    """The same seeds with and without compression, and what a step of a large U-Net takes."""
    report = compared(MODELS["fashion-unet"])
    dense, ours = (next(row for row in report.rows if row.label == label) for label in (NONE, COMPRESSED))
    rounds = " or ".join(str(n) for n in sorted({read(f"bench-sd2-{side}")["rounds"] for side in SIDES}))
    caption = (
        f"Left: fashion-unet, a small bundled model; the first image of {len(PICTURED)} classes, the same seeds in "
        f"both rows. Accuracy: zero-shot, {ours.accuracy.n} Fashion-MNIST test images. SSIM: to the uncompressed "
        f"image, mean of {count(ours)}. Right: the U-Net of Stable Diffusion 2.0 with random weights, one sample, "
        f"float32, one CPU thread, medians of {rounds} interleaved rounds; lines: quartiles."
    )
    title = '70 % of the tokens of the finest attentions merged: gated_merge(ratio=0.7, match="local")'
    figure = new_figure(9.6, 3.3, title, caption, top=0.98)
    draw_pictures(figure, report, dense, ours)
    draw_times(figure.add_axes((0.715, 0.27, 0.275, 0.545)))
    return figure


def count(row: Row) -> int:
    return row.samples.n if row.samples else 0


def draw_pictures(figure: "Figure", report: Report, dense: Row, ours: Row) -> None:
    """Some classes from left to right, uncompressed above."""
    classes = load_data("fashion-sample").classes  # the first images have the classes in this order
    places = [classes.index(name) for name in PICTURED]
    sheet = np.concatenate([np.concatenate([pixels(report.examples[row.label][place]) for place in places], 1)
                            for row in (dense, ours)])  # fmt: skip
    axes = figure.add_axes((0.142, 0.2, 0.48, 0.66))
    axes.imshow(sheet, interpolation="nearest")
    side = sheet.shape[0] / 2
    axes.set_xticks([(i + 0.5) * side - 0.5 for i in range(len(PICTURED))], PICTURED)
    axes.xaxis.tick_top()
    axes.set_yticks([])
    axes.tick_params(length=0, labelsize=9)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for i, row in enumerate((dense, ours)):
        head, words = "compressed" if i else "uncompressed", f"accuracy {100 * row.accuracy.value:.1f} %"
        words += f"\nSSIM {row.samples.ssim.value:.2f}" if i else ""
        at = {"transform": axes.get_yaxis_transform(), "ha": "right"}
        colour = OUR_COLOUR if i else "black"
        axes.text(-0.015, (i + 0.44) * side, head, va="bottom", fontsize=10, fontweight="bold", color=colour, **at)
        axes.text(-0.015, (i + 0.5) * side, words, va="top", fontsize=9, color=GREY, **at)


def pixels(png: bytes) -> np.ndarray:
    """A PNG with a white edge: -> (h, w, 3)."""
    with Image.open(io.BytesIO(png)) as opened:
        return np.pad(np.array(opened.convert("RGB")), ((1, 1), (1, 1), (0, 0)), constant_values=255)


def draw_times(axes: "Axes") -> None:
    """Seconds of a step at each size, with and without."""
    axes.set_title("Seconds per step on a CPU, SD 2.0 U-Net", loc="left", x=-0.21, fontweight="bold", pad=8)
    steps = {pixels: by_name(read(f"bench-sd2-{side}")) for side, pixels in SIDES.items()}
    for place, found in enumerate(steps.values()):
        for shift, name, colour in ((-0.19, NONE, DENSE_COLOUR), (0.19, LOCAL, OUR_COLOUR)):
            seconds, (low, high) = found[name]["seconds"], found[name]["quartiles"]
            axes.barh(place + shift, seconds, 0.34, color=colour)
            axes.plot((low, high), (place + shift,) * 2, color="black", linewidth=1)
            words = f"{seconds:.1f}" + ("  uncompressed" if (place, name) == (0, NONE) else "")
            axes.text(high + 1.5, place + shift, words, va="center", fontsize=8.5, color=GREY)
        gain = f"{found[LOCAL]['speedup']:.2f}× as fast"
        at = found[LOCAL]["quartiles"][1] + 15
        axes.text(at, place + 0.2, gain, va="center", fontsize=9.5, fontweight="bold", color=OUR_COLOUR)
    axes.set_yticks(range(len(steps)), [f"{side} px" for side in steps])
    axes.set_xlim(0, 106)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


@styled
def trade_off() -> "Figure":
    """Accuracy kept against FLOPs saved, for the methods that matter most."""
    reports = {name: compared(record) for name, record in MODELS.items()}
    sizes = " and ".join(f"{next(r.change.n for r in report.rows if r.change)} ({name})"
                         for name, report in reports.items())  # fmt: skip
    caption = (
        f"Change of zero-shot accuracy against the uncompressed model on the same test images, n = {sizes}; bars: 95 % "
        "intervals (Tango). Ratios 0.3, 0.5, 0.7; factors 2 and 4. Points are moved sideways a little."
    )
    figure = new_figure(10, 3.9, "Accuracy kept against FLOPs saved", caption)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, report) in zip(panels, reports.items(), strict=True):
        axes.axhline(0, color=GREY, linewidth=0.8)
        for number, method in enumerate(SHOWN):
            draw_method(axes, [row for row in report.rows if row.name == method], number)
        axes.set_title(name, loc="left", fontweight="bold")
        axes.set_xlabel("FLOPs saved, %")
    panels[0].set_ylabel("change of accuracy, points")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center")
    return figure


def draw_method(axes: "Axes", rows: list[Row], number: int) -> None:
    changes = [row.change for row in rows if row.change]
    saved = [100 * row.saved + 0.12 * (number - 2) for row in rows]
    values = np.array([100 * change.value for change in changes])
    ends = [values - [100 * c.low for c in changes], [100 * c.high for c in changes] - values]
    style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "capsize": 2, "elinewidth": 0.9}
    axes.errorbar(saved, values, ends, label=rows[0].name, **style)


def draw() -> None:
    save_figure(before_after(), IMAGES / "before-after.png")
    save_figure(trade_off(), IMAGES / "trade-off.png")


def describe() -> str:
    """The alternative text of the first figure."""
    found = by_name(read("bench-sd2-128"))[LOCAL]["speedup"]
    report = compared(MODELS["fashion-unet"])
    dense, ours = (next(row for row in report.rows if row.label == label) for label in (NONE, COMPRESSED))
    return signs(
        f"Generated images without and with compression look alike; accuracy {100 * dense.accuracy.value:.1f} % and "
        f"{100 * ours.accuracy.value:.1f} %; a step at 1024 px runs {found:.2f} times as fast"
    )

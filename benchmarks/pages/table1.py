"""Table 1 at matched FLOPs: the paper's numbers beside ours, all methods on three models, and its figure."""

from pathlib import Path
from typing import TYPE_CHECKING

from contrasts import compared, distance_name
from text import IMAGES, RESULTS, signs, table

from bigain.experiments.report import Report, Row
from bigain.experiments.tables import columns, footnote, percent, signed
from bigain.plots import save_figure
from bigain.plots.style import COLOURS, GREY, MARKERS, add_legend, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODELS = {"fashion-unet": "table1-unet", "fashion-dit": "table1-dit", "cifar-unet": "table1-cifar"}
TARGETS = ("10 %", "25 %", "40 %")
CORRECTED = " corrected"
SHOWN = ("setting", "accuracy %", "against uncompressed", "p (McNemar, Holm)", "same label %", "saved of a decision %",
         "SSIM", "recognised %", "saved of an image %", "speed-up")  # fmt: skip
NAMES = {"tome per_row": "ToMe", "tome per_call": "ToMe, one pattern a call", "toma": "ToMA", "sito": "SiTo",
         "dipgo": "DiP-GO", "mosaic": "MosaicDiff", "todo": "ToDo", "gated_merge": "gated merge (L-GTM)",
         "block_merge": "block merge (ABM)", "kv_downsample": "IE-KVD"}  # fmt: skip
PICTURE = IMAGES / "table1.png"


def records() -> dict[str, Path]:
    """Those that are there."""
    found = {model: RESULTS / f"{stem}.sqlite" for model, stem in MODELS.items()}
    return {model: path for model, path in found.items() if path.is_file()}


def table1() -> str:
    """The page."""
    reports = {model: compared(path) for model, path in records().items()}
    files = ", ".join(f"`{stem}.toml`" for stem in MODELS.values())
    head = f"""# Table 1 at matched FLOPs

Which method keeps most of both capabilities when 10, 25 or 40 % of the FLOPs are saved? `benchmarks/table1.py` counts
the FLOPs of each method at each ratio and writes {files} with the smallest ratio that saves
enough, at the first sites where one does: the default sites, all levels or blocks, the MLPs, both, and cross-attention.
Classification is matched by the FLOPs of a decision (ten classes, stages of five and twenty trials), generation by
those of an image. A method that cannot save as much has no row.

The methods run as published, each class with a plan of its own, and `corrected`: with one plan for all classes of a
trial and [group correction](correction.md). `fewer trials` and `fewer steps` are the uncompressed model at the same
cost. `every` and `first_block` are [caches](generate.md#caches), which cannot classify."""
    if not reports:
        return (
            f"{head}\n\nThere is no record yet; `bigain run benchmarks/experiments/bundled/table1-unet.toml` makes one."
        )
    parts = [head, beside(reports)]
    parts.append(f"![Change of accuracy and of the Fréchet distance against FLOPs saved](images/{PICTURE.name})")
    return "\n\n".join([*parts, *(section(model, report) for model, report in reports.items())])


def split(label: str) -> tuple[str, str]:
    """`gated_merge corrected, 25 %` -> ("gated_merge corrected", "25 %"); the uncompressed model has no target."""
    name, _, target = label.rpartition(", ")
    return (name, target) if target in TARGETS else (label, "")


def beside(reports: dict[str, Report]) -> str:
    """The paper's Table 1, which saves about 10 %, beside each model."""
    places = {model: {row.label: row for row in report.rows} for model, report in reports.items()}
    names = [name for name in NAMES if any(f"{name}, 10 %" in found for found in places.values())]
    paper = {row.name: row.paper for found in places.values() for row in found.values() if row.paper}
    rows = [["uncompressed", *of_paper(paper.get("none")), *(cell(found["none"]) for found in places.values())]]
    for name in names:
        label = f"{name}, 10 %"
        rows.append([NAMES[name], *of_paper(paper.get(label)), *(cell(found.get(label)) for found in places.values())])
        ours = f"{name}{CORRECTED}, 10 %"
        if any(ours in found for found in places.values()):
            rows.append([f"{NAMES[name]}, corrected", "", *(cell(found.get(ours)) for found in places.values())])
    rows.append(["fewer trials", "", *(cell(found.get("fewer trials, 10 %")) for found in places.values())])
    counts = ", ".join(f"{report_n(report)} ({model})" for model, report in reports.items())
    return f"""## The paper's table, and ours at 10 %

{table(["method", "the paper: SD 2.0, Pets", *reports], rows)}

Accuracy in %; in brackets the difference to the uncompressed model in points, here with its 95 % Tango interval on the
same images, n = {counts}. The paper saves 10 % (SiTo 7 %, ToDo and IE-KVD 14.2 %)."""


def of_paper(found: dict[str, float] | None) -> list[str]:
    if found is None:
        return [""]
    drop = f" (−{found['drop']:.2f})" if "drop" in found else ""
    return [f"{found['accuracy']:.2f}{drop}"]


def cell(row: Row | None) -> str:
    if row is None or row.accuracy is None:
        return ""
    return signs(f"{percent(row.accuracy.value)} ({signed(row.change)})" if row.change else percent(row.accuracy.value))


def report_n(report: Report) -> int:
    return next(row.accuracy.n for row in report.rows if row.accuracy)


def section(model: str, report: Report) -> str:
    distance = distance_name(report)
    shown = (*SHOWN, distance, f"{distance} against uncompressed")
    heads = [column for column in columns(report) if column.head in shown]
    rows = [[signs(column.text(row)) if column.head != "setting" else column.text(row) for column in heads]
            for row in report.rows]  # fmt: skip
    stem = MODELS[model]
    return f"""## {model}

`bigain run benchmarks/experiments/bundled/{stem}.toml`, record `benchmarks/results/{stem}.sqlite`.

{table([column.head for column in heads], rows)}

{footnote(report)}"""


@styled
def picture() -> "Figure":
    """Classification above, generation below, a column for each model; corrected rows are filled."""
    reports = {model: compared(path) for model, path in records().items()}
    counts = ", ".join(f"{report_n(report)} ({model})" for model, report in reports.items())
    caption = (
        f"Above: change of zero-shot accuracy against the uncompressed model on the same test images, n = {counts}; "
        "bars: 95 % intervals (Tango). Hollow: as published; filled: one plan for all classes, corrected. Below: "
        "change of the Fréchet distance to real images from the same seeds, ± one standard error; lower is better."
    )
    figure = new_figure(3.4 * len(reports) + 1.8, 6.2, "Table 1 at matched FLOPs", caption)
    panels = figure.subplots(2, len(reports), squeeze=False)
    names = list(dict.fromkeys(
        split(row.label)[0].removesuffix(CORRECTED) for report in reports.values() for row in report.rows
    ))  # fmt: skip
    names.remove("none")
    for column, (model, report) in enumerate(reports.items()):
        top, bottom = panels[:, column]
        top.set_title(model, loc="left", fontweight="bold")
        top.set_xlabel("FLOPs of a decision saved, %")
        bottom.set_xlabel("FLOPs of an image saved, %")
        for axes in (top, bottom):
            axes.axhline(0, color=GREY, linewidth=0.8)
        for number, name in enumerate(names):
            draw_method(top, bottom, report, name, number)
    panels[0, 0].set_ylabel("change of accuracy, points")
    panels[1, 0].set_ylabel("change of the Fréchet distance")
    add_legend(figure, panels.ravel())
    return figure


def draw_method(top: "Axes", bottom: "Axes", report: Report, name: str, number: int) -> None:
    style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "capsize": 2,
             "elinewidth": 0.9, "linewidth": 0.9, "markersize": 4.5}  # fmt: skip
    distance = distance_name(report)
    for suffix, fill in (("", "none"), (CORRECTED, "full")):
        rows = [row for row in report.rows if split(row.label)[0] == f"{name}{suffix}"]
        found = [
            (100 * row.decision_saved, row.change) for row in rows if row.change and row.decision_saved is not None
        ]
        line = "-" if fill == "full" else ":"
        if found:
            values = [100 * change.value for _, change in found]
            ends = [[100 * (change.value - change.low) for _, change in found],
                    [100 * (change.high - change.value) for _, change in found]]  # fmt: skip
            label = name if fill == "none" else None
            top.errorbar([x for x, _ in found], values, ends, fillstyle=fill, linestyle=line, label=label, **style)
        changes = [(100 * row.image_saved, (row.distance_changes or {}).get(distance or ""))
                   for row in rows if row.samples and row.image_saved is not None]  # fmt: skip
        drawn = [(x, change) for x, change in changes if change]
        if drawn:
            values, errors = [change.value for _, change in drawn], [change.error for _, change in drawn]
            bottom.errorbar([x for x, _ in drawn], values, errors, fillstyle=fill, linestyle=line, label=name, **style)


def draw() -> None:
    if records():
        save_figure(picture(), PICTURE)

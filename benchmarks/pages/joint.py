"""Joint attention: what compression costs a small flow model, and which claims hold there."""

from dataclasses import replace

from contrasts import Contrast, DistanceContrast, accuracy_contrast, compared, distance_contrast
from text import IMAGES, RESULTS, points, signs, table

from bigain.experiments.report import Report, Row
from bigain.experiments.tables import columns, footnote
from bigain.plots import pareto, save_figure
from compression import VERDICTS, Claim

MODEL, RECORD = "fashion-mmdit", RESULTS / "main-mmdit.sqlite"
CLASSIFYING = ("setting", "accuracy %", "against uncompressed", "same label %", "class differences, error",
               "saved of a decision %")  # fmt: skip
GENERATING = ("setting", "FD-fashion", "FD-fashion against uncompressed", "recognised %", "SSIM",
              "saved of an image %")  # fmt: skip
CLAIMS = (
    Claim("One plan for all classes beats a plan for each class", "gated_merge, one plan", "gated_merge"),
    Claim("The correction beats one plan alone", "gated_merge corrected", "gated_merge, one plan"),
    Claim("The correction improves `kv_downsample`", "kv_downsample corrected", "kv_downsample", "factor"),
    Claim("The correction improves `todo`", "todo corrected", "todo", "factor"),
    Claim("The correction improves `avg_pool`", "avg_pool corrected", "avg_pool", "factor"),
    Claim("`gated_merge` beats ToMe with a pattern for each class", "gated_merge", "tome per_row"),
    Claim("`block_merge` beats ToMe with a pattern for each class", "block_merge", "tome per_row"),
    Claim("`kv_downsample` beats `todo`", "kv_downsample", "todo", "factor"),
    Claim("`kv_downsample` beats `avg_pool`", "kv_downsample", "avg_pool", "factor"),
)
GENERATION = (
    Claim("`gated_merge` generates better than ToMe", "gated_merge", "tome per_row"),
    Claim("`block_merge` generates better than ToMe", "block_merge", "tome per_row"),
    Claim("`kv_downsample` generates better than `todo`", "kv_downsample", "todo", "factor"),
    Claim("`kv_downsample` generates better than `avg_pool`", "kv_downsample", "avg_pool", "factor"),
)


def joint() -> str:
    report = compared(RECORD)
    accuracy = [accuracy_contrast(RECORD, c.ours, c.theirs, c.variable, len(CLAIMS)) for c in CLAIMS]
    distance = [distance_contrast(RECORD, c.ours, c.theirs, c.variable, len(GENERATION)) for c in GENERATION]
    return f"""# Joint attention

What holds where text and image share one attention? `{MODEL}` is a small `SD3Transformer2DModel` with 4 learned prompt
tokens a class, trained by rectified flow on Fashion-MNIST ([the bundled models](models.md)). Operators act on the image
tokens of the first three of its six blocks; text is never touched.

`bigain run benchmarks/experiments/bundled/main-mmdit.toml`, record `benchmarks/results/main-mmdit.sqlite`.

{best(report)}

![Accuracy and FD-fashion of {MODEL} against FLOPs saved](images/main-mmdit-pareto.png)

Each class with its own plan; what one plan, the correction and fewer trials save is counted for a decision, below.

## Which claims hold here

{table(["claim on classification", "verdict", "points"], claimed(CLAIMS, accuracy))}

Differences of accuracy in points, the mean over the ratios or factors that both have, with 95 % bootstrap intervals
over images. A verdict allows for {len(CLAIMS)} claims.

{table(["claim on generation", "verdict", "FD-fashion"], claimed(GENERATION, distance))}

Below zero, the first generates better; ± one standard error, and the verdict allows for {len(GENERATION)} claims.

## Classification

{rows(report, CLASSIFYING, [row for row in report.rows if row.accuracy])}

## Generation

`fewer steps` is the uncompressed model with 16 sampler steps instead of 20.

{rows(report, GENERATING, [row for row in report.rows if row.samples])}

{footnote(report).replace("model ", "Model ", 1)}"""


def best(report: Report) -> str:
    """The settings that save most without a loss beyond their interval, with and without the correction."""
    words = []
    for name, chosen in (("corrected", True), ("not corrected", False)):
        kept = [row for row in report.rows if row.change and row.change.high >= 0 and saved(row) > 0
                and ("corrected" in row.name) == chosen and row.name != "fewer trials"]  # fmt: skip
        row = max(kept, key=saved, default=None)
        words.append(f"{name}, none" if row is None else f"{name}, `{row.label}` ({told(row)})")
    fewer = "; ".join(f"{row.values['trials']} ({told(row)})" for row in report.rows if row.name == "fewer trials")
    return signs(
        f"Settings that save most of a decision's FLOPs without a loss beyond their interval: {'; '.join(words)}. They "
        "were picked on these images, and an interval that reaches zero is no proof of no loss. The uncompressed model "
        f"with fewer trials: {fewer}."
    )


def saved(row: Row) -> float:
    return row.decision_saved or 0.0


def told(row: Row) -> str:
    change = row.change
    assert change is not None
    same = f", {100 * row.agreement.value:.0f} % same labels" if row.agreement else ""
    return f"{100 * saved(row):.0f} % saved, {points(change.value, change.low, change.high)} points{same}"


def claimed(claims: tuple[Claim, ...], found: list[Contrast] | list[DistanceContrast]) -> list[list[str]]:
    verdicts = [f"**{VERDICTS[one.verdict]}**" if one.verdict else VERDICTS[0] for one in found]
    return [[claim.text, verdict, one.cells()[-1]] for claim, verdict, one in zip(claims, verdicts, found, strict=True)]


def rows(report: Report, shown: tuple[str, ...], chosen: list[Row]) -> str:
    heads = [column for column in columns(report) if column.head in shown]
    cells = [[column.text(row) if column.head == "setting" else signs(column.text(row)) for column in heads]
             for row in chosen]  # fmt: skip
    return table([column.head for column in heads], cells)


def draw() -> None:
    """Settings whose rows stand alone: what fewer trials or a correction save is counted for a decision."""
    report = compared(RECORD)
    alone = [row for row in report.rows if not any(word in row.name for word in ("fewer", "corrected", "one plan"))]
    save_figure(pareto(replace(report, rows=alone)), IMAGES / "main-mmdit-pareto.png")

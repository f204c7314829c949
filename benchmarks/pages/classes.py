"""What many classes change: cost and agreement against their number, and what one setting keeps at 345."""

from typing import TYPE_CHECKING

from bundled import card
from contrasts import compared
from correction import percent, points
from text import IMAGES, RESULTS, Record, read, share, signs, table

from bigain.experiments.report import Report, Row
from bigain.experiments.tables import columns, footnote
from bigain.plots import save_figure
from bigain.plots.style import COLOURS, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "quickdraw-dit"
COUNTS = (10, 37, 100, 345)
SHOWN = ("setting", "accuracy %", "top-5 %", "against uncompressed", "same label %", "class differences, error",
         "evaluations", "saved of a decision %")  # fmt: skip
LINES = {  # rows that every number of classes has: label, colour, marker, line
    "gated_merge all blocks + MLP, ratio 0.5": ("one plan", "#B8BDC7", "o", "-"),
    "gated_merge all blocks + MLP corrected, ratio 0.5": ("corrected", COLOURS[0], "o", "-"),
    "balanced": ("balanced", "#117733", "s", "--"),
    "balanced, gated_merge corrected, ratio 0.5": ("balanced, corrected", "#117733", "s", "-"),
    "fast": ("fast", "#CC6677", "^", "--"),
    "fast, gated_merge corrected, ratio 0.5": ("fast, corrected", "#CC6677", "^", "-"),
}
FAST = "fast, gated_merge corrected, ratio 0.5"
SHORT = ", 8 trials"


def reports() -> dict[int, Report]:
    """Those that are there."""
    places = {count: RESULTS / f"classes-{count}.sqlite" for count in COUNTS}
    return {count: compared(path) for count, path in places.items() if path.is_file()}


def classes() -> str:
    found = reports()
    own = card(MODEL)
    return "\n\n".join(filter(None, [
        f"""# Many classes

The paper classifies among 37 to 1,000 classes. `{MODEL}` knows 345 kinds of drawings (Quick, Draw!, Google, CC BY 4.0)
and gets {share(own["accuracy"])} of {own["accuracy"]["n"]} held-out drawings right, {share(own["top5"])} within its
first five. Subsets of its classes give the same model fewer rivals. Drawings here were used for nothing else.

{verdicts(found)}

![FLOPs of a decision, and how many labels stay, against the number of classes](images/classes.png)""",
        *(section(count, report) for count, report in found.items()),
        short(found[345]) if 345 in found else "",
        tuned(),
    ]))  # fmt: skip


def verdicts(found: dict[int, Report]) -> str:
    """Targets and what was reached with most classes."""
    report = found[max(found)]
    count = max(found)
    corrected = [row for row in report.rows if "corrected" in row.name and row.agreement and not preset(row)]
    kept = [row for row in corrected if of_short(row, report) >= 0.97]
    best = max(kept or corrected, key=lambda row: relative_saving(row, report))
    fast = next(row for row in report.rows if row.label == FAST)
    spent = 1 - (fast.decision_saved or 0)
    met = bool(kept) and relative_saving(best, report) >= 0.5
    close = fast.change is not None and fast.change.value >= -0.015
    return signs(
        f"""- **With {count} classes, a corrected setting that keeps 97 % of the labels at half of the FLOPs**:
  {"met" if met else "missed"}. `{best.label}` keeps {percent(of_short(best, report))} of the labels and saves
  {percent(relative_saving(best, report))} of the FLOPs of its protocol.
- **`fast`, compressed, at a tenth of the FLOPs of the paper's stages, within 1.5 points**:
  {"met" if spent <= 0.1 and close else "missed"}. It spends {percent(spent)}, {points(fast)}."""
    )


def preset(row: Row) -> bool:
    return row.name.startswith(("balanced", "fast"))


def uncompressed(row: Row, report: Report) -> Row:
    """The uncompressed model under the same protocol."""
    label = f"none{SHORT}" if SHORT in row.name else "none"
    return next(other for other in report.rows if other.label == label)


def relative_saving(row: Row, report: Report) -> float:
    return 1 - (row.decision_flops or 0) / (uncompressed(row, report).decision_flops or 1)


def of_short(row: Row, report: Report) -> float:
    """The share of labels that are those of the uncompressed model under the same protocol."""
    whole = compared(RESULTS / "classes-345.sqlite", f"none{SHORT}") if SHORT in row.name else report
    found = next(other for other in whole.rows if other.label == row.label).agreement
    return found.value if found else 0.0


def section(count: int, report: Report) -> str:
    rows = [row for row in report.rows if SHORT not in row.name]
    return f"""## {count} classes

{listed(report, rows)}

{footnote(report)} `bigain run benchmarks/experiments/bundled/classes-{count}.toml`."""


def listed(report: Report, rows: list[Row]) -> str:
    heads = [column for column in columns(report) if column.head in SHOWN]
    cells = [[column.text(row) if column.head == "setting" else signs(column.text(row)) for column in heads]
             for row in rows]  # fmt: skip
    return table([column.head for column in heads], cells)


def short(report: Report) -> str:
    """Many settings under a shorter protocol, against the uncompressed model under the same."""
    whole = compared(RESULTS / "classes-345.sqlite", f"none{SHORT}")
    rows = []
    for row in whole.rows:
        if SHORT not in row.name:
            continue
        rows.append([row.label.replace(SHORT, ""), share(row.accuracy._asdict()), share(row.top5._asdict()),
                     points(row), percent(row.agreement.value if row.agreement else None),
                     percent(relative_saving(row, report))])  # fmt: skip
    heads = ["setting", "accuracy", "top-5", "against uncompressed", "same label", "saved of a decision"]
    return f"""## Settings at 345 classes

A shorter protocol, so that many settings can be compared: all classes on 2 trials, the best 20 on 8
(`stages(trials=(2, 8), keep=(20, 1))`). n = {whole.rows[0].accuracy.n}.

{table(heads, rows)}"""


def tuned() -> str:
    """How the presets were set, and whether groups of classes first would save more."""
    if not (RESULTS / "many-classes.json").is_file():
        return ""
    record = read("many-classes")
    rows = [[str(r["classes"]), str(r["confidence"]), f"{r['evaluations']:.0f}", share(r["accuracy"]),
             percent(r["same_label"])] for r in record["rows"]]  # fmt: skip
    return f"""## How hasty may a policy be?

`curtail(confidence)` replayed on the errors of its most patient setting, on the bundled drawings (n is 74, 150 and 120
for 37, 100 and 345 classes). `python benchmarks/many_classes.py`.

{table(["classes", "confidence", "evaluations", "accuracy", "same label as the most patient"], rows)}

**Groups of classes first.** Classes whose errors rise and fall together were put into groups on half of the drawings.
On the other half, one class of each group is tried first, then all classes of the best groups. {groups(record)}"""


def groups(record: Record) -> str:
    good = [r for r in record["groups"] if r["winner_kept"] >= 0.97]
    whole = max(r["classes"] for r in record["rows"])
    best = min(good, key=lambda r: r["evaluations"], default=None)
    if best is None:
        return "No number of groups keeps 97 % of the winners, so it is not part of the library."
    saved = 1 - best["evaluations"] / whole
    return (
        f"To keep 97 % of the winners it takes {best['groups']} groups of which {best['kept']} stay: "
        f"{best['evaluations']:.0f} of {whole} evaluations in the first trial, {percent(saved)} saved."
    )


@styled
def figure() -> "Figure":
    found = reports()
    n = sorted({row.accuracy.n for report in found.values() for row in report.rows if row.accuracy})
    words = (
        f"{MODEL}, gated_merge 0.5 in all blocks and MLPs; uncompressed with the paper's stages is 100 %. Bars: 95 % "
        f"Wilson intervals, n = {n[0]} to {n[-1]} drawings."
    )
    whole = new_figure(9.6, 4.2, "Many classes: what a decision costs, and whether it stays", words)
    cost, same = whole.subplots(1, 2)
    for label, (name, colour, marker, line) in LINES.items():
        rows = [(count, next((r for r in report.rows if r.label == label), None)) for count, report in found.items()]
        rows = [(count, row) for count, row in rows if row is not None and row.agreement]
        style = {"color": colour, "marker": marker, "linestyle": line, "label": name, "markersize": 5}
        cost.plot([count for count, _ in rows], [100 * (1 - (row.decision_saved or 0)) for _, row in rows], **style)
        values = [100 * row.agreement.value for _, row in rows]
        spread = [[v - 100 * row.agreement.low for v, (_, row) in zip(values, rows, strict=True)],
                  [100 * row.agreement.high - v for v, (_, row) in zip(values, rows, strict=True)]]  # fmt: skip
        same.errorbar([count for count, _ in rows], values, yerr=spread, elinewidth=0.5, **style)
    cost.axhline(100, color=GREY, linewidth=0.8)
    for axes in (cost, same):
        axes.set_xscale("log")
        axes.set_xticks(COUNTS, [str(count) for count in COUNTS])
        axes.minorticks_off()
        axes.set_xlabel("classes")
    cost.set_ylim(bottom=0)
    cost.set_ylabel("FLOPs of a decision, % of the paper's stages")
    same.set_ylabel("same label as the paper's stages, uncompressed, %")
    cost.legend(fontsize=7)
    return whole


def draw() -> None:
    if reports():
        save_figure(figure(), IMAGES / "classes.png")

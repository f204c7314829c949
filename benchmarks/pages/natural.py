"""The main comparison on natural images in colour: cifar-unet."""

from contrasts import accuracy_contrast, compared, distance_contrast, distance_name
from text import IMAGES, RESULTS, signs, table

from bigain.experiments.report import Report
from bigain.experiments.tables import columns, footnote
from bigain.plots import changes, curves, pareto, save_figure
from compression import CLAIMS, GENERATION, SHOWN, judged

RECORD = RESULTS / "main-cifar.sqlite"
COMMAND = "`bigain run benchmarks/experiments/bundled/main-cifar.toml`"
HEAD = """# Natural images

The [main comparison](results-details.md) on `cifar-unet`: 32x32 images in colour with texture, where frequency should
matter more than on grey clothes. Same settings, same questions."""


def natural() -> str:
    """The page."""
    if not RECORD.is_file():
        return f"{HEAD}\n\nThere is no record yet; {COMMAND} makes one."
    report = compared(RECORD)
    distance = distance_name(report)
    shown = {name.replace("FD-fashion", distance or "") for name in SHOWN}
    heads = [column for column in columns(report) if column.head in shown]
    rows = [[signs(column.text(row)) if column.head != "setting" else column.text(row) for column in heads]
            for row in report.rows]  # fmt: skip
    return f"""{HEAD}

{COMMAND}, record `benchmarks/results/main-cifar.sqlite`.

![Change of accuracy of cifar-unet under each setting, with intervals](images/main-cifar-changes.png)

![Accuracy of cifar-unet against ratio and factor](images/main-cifar-accuracy.png)

![Accuracy and Fréchet distance of cifar-unet against FLOPs saved](images/main-cifar-pareto.png)

{table([column.head for column in heads], rows)}

{footnote(report)}

{claims(report)}"""


def claims(report: Report) -> str:
    heads = ["difference, mean over ratios or factors", "at the highest"]
    accuracy = [
        [one.text, *judged([accuracy_contrast(RECORD, one.ours, one.theirs, one.variable, len(CLAIMS))])]
        for one in CLAIMS
    ]
    distances = [
        [one.text, *judged([distance_contrast(RECORD, one.ours, one.theirs, one.variable, len(GENERATION))])]
        for one in GENERATION
    ]
    return f"""## Which claims hold on natural images

As in [the main comparison](results-details.md#which-claims-hold-here): in percentage points with 95 % intervals, judged
for all {len(CLAIMS)} claims together.

{table(["claim on classification", *heads], accuracy)}

Differences of {distance_name(report)}, ± one standard error. Below zero, the first generates better.

{table(["claim on generation", *heads], distances)}"""


def draw() -> None:
    if not RECORD.is_file():
        return
    report = compared(RECORD)
    for name, figure in {"accuracy": curves(report), "changes": changes(report), "pareto": pareto(report)}.items():
        save_figure(figure, IMAGES / f"main-cifar-{name}.png")

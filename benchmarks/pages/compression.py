"""What compression costs both capabilities: the main comparison, where the gain comes from, smaller experiments."""

from collections.abc import Iterable
from typing import NamedTuple

from contrasts import Contrast, DistanceContrast, accuracy_contrast, compared, distance_contrast
from text import IMAGES, RECORDS, table

from bigain.experiments.report import Report, Row
from bigain.experiments.tables import columns, footnote, percent, signed
from bigain.plots import changes, curves, gallery, pareto, save_figure, spectra

SHORT = {"fashion-unet": "U-Net", "fashion-dit": "DiT"}
STEMS = {"fashion-unet": "main-unet", "fashion-dit": "main-dit"}
MAIN = {name: RECORDS / f"{stem}.sqlite" for name, stem in STEMS.items() if (RECORDS / f"{stem}.sqlite").is_file()}
SHOWN = ("setting", "accuracy %", "against uncompressed", "p (McNemar, Holm)", "FD-fashion",
         "FD-fashion against uncompressed", "recognised %", "SSIM", "saved %")  # fmt: skip


class Claim(NamedTuple):
    """A sentence of the paper, or what it needs to be true, as a difference of two rows that is above zero."""

    text: str
    ours: str
    theirs: str
    variable: str = "ratio"


CLAIMS = (
    Claim("Gated merging classifies better than ToMe as the paper ran it", "gated_merge", "tome per_row"),
    Claim("Gated merging beats ToMe with one pattern for all (the frequency alone)", "gated_merge", "tome fixed"),
    Claim("Gated merging beats ToMe with the corner of each cell", "gated_merge", "tome corner"),
    Claim("Smooth tokens are better destinations than detailed ones", "gated_merge", "gated_merge highest"),
    Claim("Gated merging beats the row order of the released code", "gated_merge", "gated_merge row_order"),
    Claim("One pattern for all is better than one for each class (determinism alone)", "tome fixed", "tome per_row"),
    Claim("One pattern a call is better than one for each class", "tome per_call", "tome per_row"),
    Claim("Block merging classifies better than ToMe as the paper ran it", "block_merge", "tome per_row"),
    Claim("Interpolated keys classify better than ToDo's", "kv_downsample", "todo", "factor"),
    Claim("Interpolated keys classify better than averaged ones", "kv_downsample", "avg_pool", "factor"),
)
GENERATION = (
    Claim("Gated merging generates better than ToMe, one pattern a call", "gated_merge", "tome per_call"),
    Claim("Gated merging generates better than ToMe with one pattern for all", "gated_merge", "tome fixed"),
    Claim("Smooth tokens are better destinations than detailed ones", "gated_merge", "gated_merge highest"),
    Claim("Block merging generates better than ToMe, one pattern a call", "block_merge", "tome per_call"),
    Claim("Interpolated keys generate better than ToDo's", "kv_downsample", "todo", "factor"),
    Claim("Interpolated keys generate better than averaged ones", "kv_downsample", "avg_pool", "factor"),
)
SUMMARY = (
    "none", "gated_merge, ratio 0.5", "block_merge, ratio 0.5", "tome per_call, ratio 0.5", "tome per_row, ratio 0.5",
    "gated_merge, ratio 0.7", "gated_merge local, ratio 0.7", "block_merge, ratio 0.7", "tome per_call, ratio 0.7",
    "tome per_row, ratio 0.7", "kv_downsample, factor 2", "todo, factor 2", "avg_pool, factor 2",
)  # fmt: skip
VERDICTS = {1: "holds", -1: "the opposite", 0: "not shown"}


def compression() -> str:
    reports = {name: compared(record) for name, record in MAIN.items()}
    return "\n\n".join([
        """## What compression costs

The paper's main comparison: the same test images, trials and noise under every setting, and the same seeds for the
generated images (`bigain run benchmarks/experiments/bundled/main-unet.toml`, and `main-dit.toml` for the other model;
records in `src/bigain/records`, from which `bigain report RECORD --out FOLDER` draws the figures). The operators act
where they do by default: the attentions of the U-Net's finest grid, and the first three of the DiT's six blocks.""",
        *(main_section(name, report) for name, report in reports.items()),
        claims(),
        decomposition(),
        generation(),
    ])  # fmt: skip


def summary() -> str:
    """For the README: both capabilities and the cost of the main settings on both models."""
    reports = [compared(record) for record in MAIN.values()]
    places = [{row.label: row for row in report.rows} for report in reports]
    rows = []
    for label in SUMMARY:
        cells = []
        for found in places:
            row = found[label]
            cells += [
                f"{percent(row.accuracy.value)} ({signed(row.change) or '–'})",
                distance(row),
                percent(row.saved),
            ]
        rows.append([label, *(cell.replace("-", "−") for cell in cells)])
    heads = ["setting", *(f"{SHORT[name]}: {head}" for name in MAIN for head in ("accuracy %", "FD", "FLOPs saved %"))]
    counts = (next(row.accuracy.n for row in report.rows if row.accuracy) for report in reports)
    sizes = " and ".join(f"{count} ({SHORT[name]})" for name, count in zip(MAIN, counts, strict=True))
    floor = next(row.samples.distances["FD-fashion"].floor for row in reports[0].rows if row.samples)
    return f"""{table(heads, rows)}

Fashion-MNIST test images, n = {sizes}, the same for all settings, seed 0; in brackets the
difference to uncompressed in points with its 95 % interval (Tango). FD: Fréchet distance of 500 generated images to
real ones in the features of a small classifier, and its difference to uncompressed with one standard error, from the
same seeds; real against real {floor:.1f}. "tome per_row" draws a pattern for each class, as the paper ran it, and "ToMe
per call" one for all classes of a trial, as `tome(pattern="per_call")` does here; generating, both are
the same."""


def distance(row: Row) -> str:
    if not row.samples:
        return ""
    found, change = row.samples.distances["FD-fashion"], (row.distance_changes or {}).get("FD-fashion")
    return f"{found.value:.1f} ({f'{change.value:+.1f} ± {change.error:.1f}' if change else '–'})"


def main_section(name: str, report: Report) -> str:
    heads = [column for column in columns(report) if column.head in SHOWN]
    rows = [[column.text(row).replace("-", "−") if column.head != "setting" else column.text(row) for column in heads]
            for row in report.rows]  # fmt: skip
    stem = MAIN[name].stem
    return f"""### {name}

![Change of accuracy of {name} under each setting, with intervals](images/{stem}-changes.png)

![Accuracy of {name} against ratio and factor](images/{stem}-accuracy.png)

![FD-fashion of {name} against ratio and factor](images/{stem}-fd.png)

![Accuracy and FD-fashion of {name} against FLOPs saved](images/{stem}-pareto.png)

{table([column.head for column in heads], rows)}

{footnote(report).replace("model ", "Model ", 1)}"""


def draw() -> None:
    """The figures of the page."""
    for record in MAIN.values():
        report = compared(record)
        figures = {"accuracy": curves(report), "fd": curves(report, "FD-fashion"), "changes": changes(report),
                   "pareto": pareto(report), "spectra": spectra(report), "gallery": gallery(report)}  # fmt: skip
        for name, figure in figures.items():
            save_figure(figure, IMAGES / f"{record.stem}-{name}.png")


def on_accuracy(claim: Claim, name: str) -> Contrast:
    return accuracy_contrast(MAIN[name], claim.ours, claim.theirs, claim.variable, len(CLAIMS))


def on_distance(claim: Claim, name: str) -> DistanceContrast:
    return distance_contrast(MAIN[name], claim.ours, claim.theirs, claim.variable, len(GENERATION))


def in_short() -> str:
    return f"""## In short

{summary()}

The paper's claims, [tested below](#which-claims-hold-here), on these models. On classification:

{in_words({claim.text: [on_accuracy(claim, name).verdict for name in MAIN] for claim in CLAIMS})}

On generation:

{in_words({claim.text: [on_distance(claim, name).verdict for name in MAIN] for claim in GENERATION})}"""


def claims() -> str:
    heads = [head for name in MAIN for head in (f"{SHORT[name]}, mean", "at the highest ratio or factor")]
    accuracy = [[claim.text, *judged(on_accuracy(claim, name) for name in MAIN)] for claim in CLAIMS]
    distances = [[claim.text, *judged(on_distance(claim, name) for name in MAIN)] for claim in GENERATION]
    return f"""### Which claims hold here

Differences of accuracy in percentage points on the same images: in the mean of all ratios or factors, with 95 %
bootstrap intervals over images, and at 0.7 or 4, with Tango's. "Holds" and "the opposite": zero lies outside the
interval of the mean at {100 - 5 / len(CLAIMS):g} %, which allows for {len(CLAIMS)} claims.

{table(["claim on classification", *heads], accuracy)}

Differences of the Fréchet distance to real images in the features of `fashion-features`, from the same seeds, ± one
standard error; below zero, the first generates better. The same test, for {len(GENERATION)} claims, by Student's t.

{table(["claim on generation", *heads], distances)}"""


def judged(found: Iterable[Contrast | DistanceContrast]) -> list[str]:
    return [cell for one in found for cell in (f"{bold(one.verdict)}: {one.cells()[-1]}", one.cells()[-2])]


def in_words(found: dict[str, list[int]]) -> str:
    """Which claims hold, are turned round, or are not shown, as a list."""
    kinds: dict[str, list[str]] = {}
    for text, verdicts in found.items():
        places = {kind: [name for name, own in zip(MAIN, verdicts, strict=True) if own == kind] for kind in VERDICTS}
        words = ", ".join(f"{VERDICTS[kind]} on {' and '.join(names)}" for kind, names in places.items() if names)
        kinds.setdefault(words, []).append(text)
    return "\n".join(
        f"- **{words[0].upper()}{words[1:]}**\n" + "\n".join(f"    - {text}" for text in texts)
        for words, texts in sorted(kinds.items(), key=lambda item: item[0].startswith(VERDICTS[0]))
    )


def bold(verdict: int) -> str:
    return f"**{VERDICTS[verdict]}**" if verdict else VERDICTS[verdict]


def decomposition() -> str:
    parts = []
    for name in MAIN:
        rows = [on_accuracy(Claim("", ours, theirs), name).cells() for ours, theirs in (
            ("gated_merge", "tome per_row"), ("tome fixed", "tome per_row"), ("gated_merge", "tome fixed"),
            ("gated_merge local", "gated_merge"), ("block_merge", "gated_merge"),
        )]  # fmt: skip
        total, fixed, frequency = (on_accuracy(Claim("", a, b), name).mean.value for a, b in (
            ("gated_merge", "tome per_row"), ("tome fixed", "tome per_row"), ("gated_merge", "tome fixed"),
        ))  # fmt: skip
        parts.append(f"""**{name}**: of {100 * total:+.1f} points over ToMe with a pattern for each class,
{100 * fixed:+.1f} come with one pattern for all, {100 * frequency:+.1f} with choosing destinations by frequency.

{table(["difference", "ratio 0.3", "ratio 0.5", "ratio 0.7", "mean"], rows)}""")
    return "\n\n".join([
        """### Frequency or determinism?

The paper compares its merging, which draws nothing, with ToMe, whose pattern is drawn anew in every call, so that two
classes may differ because they were merged differently. Give ToMe one pattern for everything and the
rest of the difference is what the Laplacian itself brings:""",
        *parts,
    ]).replace(" -", " −")  # fmt: skip


def generation() -> str:
    parts = []
    for name, record in MAIN.items():
        found = [on_distance(claim, name) for claim in GENERATION]
        merges = [one.cells() for claim, one in zip(GENERATION, found, strict=True) if claim.variable == "ratio"]
        merges.append(distance_contrast(record, "gated_merge local", "gated_merge").cells())
        coarser = [one.cells() for claim, one in zip(GENERATION, found, strict=True) if claim.variable == "factor"]
        parts += [
            f"**{name}**",
            f"![Power spectra of images by {name} against real ones](images/{record.stem}-spectra.png)",
            f"![The same seeds of {name} under each setting](images/{record.stem}-gallery.png)",
            table(["difference of FD-fashion", "ratio 0.3", "ratio 0.5", "ratio 0.7", "mean"], merges),
            table(["difference of FD-fashion", "factor 2", "factor 4", "mean"], coarser),
        ]
    return "\n\n".join([
        """### Generation

All differences of the Fréchet distance, value by value, ± one standard error: below zero, the first generates
better.""",
        *parts,
    ])  # fmt: skip

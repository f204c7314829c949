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
    Claim("`gated_merge` beats ToMe with a pattern for each class, as the paper ran it", "gated_merge", "tome per_row"),
    Claim("`gated_merge` beats ToMe with one fixed pattern (frequency alone)", "gated_merge", "tome fixed"),
    Claim("`gated_merge` beats ToMe with the corner of each cell", "gated_merge", "tome corner"),
    Claim("Smooth tokens are better destinations than detailed ones", "gated_merge", "gated_merge highest"),
    Claim("`gated_merge` beats the row order of the released code", "gated_merge", "gated_merge row_order"),
    Claim("One fixed pattern beats a pattern for each class (determinism alone)", "tome fixed", "tome per_row"),
    Claim("One pattern per call beats a pattern for each class", "tome per_call", "tome per_row"),
    Claim("`block_merge` beats ToMe with a pattern for each class, as the paper ran it", "block_merge", "tome per_row"),
    Claim("`kv_downsample` beats `todo`", "kv_downsample", "todo", "factor"),
    Claim("`kv_downsample` beats `avg_pool`", "kv_downsample", "avg_pool", "factor"),
)
GENERATION = (
    Claim("`gated_merge` beats ToMe with one pattern per call", "gated_merge", "tome per_call"),
    Claim("`gated_merge` beats ToMe with one fixed pattern", "gated_merge", "tome fixed"),
    Claim("Smooth tokens are better destinations than detailed ones", "gated_merge", "gated_merge highest"),
    Claim("`block_merge` beats ToMe with one pattern per call", "block_merge", "tome per_call"),
    Claim("`kv_downsample` beats `todo`", "kv_downsample", "todo", "factor"),
    Claim("`kv_downsample` beats `avg_pool`", "kv_downsample", "avg_pool", "factor"),
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
        """# The main comparison

Every setting sees the same test images, timesteps and noise, and generates from the same seeds. The operators act on
their default sites: the self-attentions of the U-Net's finest grid, and the first three of the DiT's six blocks.

To repeat it: `bigain run benchmarks/experiments/bundled/main-unet.toml`, and `main-dit.toml` for the DiT. The records
are in `src/bigain/records`; `bigain report RECORD --out FOLDER` draws the figures.""",
        *(main_section(name, report) for name, report in reports.items()),
        claims(),
        decomposition(),
        generation(),
    ])  # fmt: skip


def summary() -> str:
    """Both capabilities and the cost of the main settings on both models."""
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

Accuracy: zero-shot on Fashion-MNIST test images, n = {sizes}, the same for all settings, seed 0. In
brackets: the difference to the uncompressed model in points, with its 95 % Tango interval. FD: Fréchet distance of 500
generated images to real ones in the features of a small classifier. In brackets: the difference to the uncompressed
model from the same seeds, ± one standard error. Real images against real images: {floor:.1f}.

`tome per_row` draws a pattern for each class, as the paper ran ToMe. `tome per_call` draws one for all classes of a
trial. In generation the two are the same."""


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
    return f"""## {name}

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


def claims() -> str:
    heads = [head for name in MAIN for head in (f"{SHORT[name]}, mean", "at the highest ratio or factor")]
    accuracy = [[claim.text, *judged(on_accuracy(claim, name) for name in MAIN)] for claim in CLAIMS]
    distances = [[claim.text, *judged(on_distance(claim, name) for name in MAIN)] for claim in GENERATION]
    return f"""## Which claims hold here

Differences of accuracy in percentage points, on the same images. The mean is over all ratios or factors, with a 95 %
bootstrap interval over images; the value at ratio 0.7 or factor 4 has Tango's interval. A claim "holds", or "the
opposite" does, where zero lies outside the {100 - 5 / len(CLAIMS):g} % interval of the mean, which allows for
{len(CLAIMS)} claims.

{table(["claim on classification", *heads], accuracy)}

Differences of the Fréchet distance to real images in the features of `fashion-features`, from the same seeds, ± one
standard error. Below zero, the first generates better. The test is Student's t, allowing for {len(GENERATION)} claims.

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
        parts.append(f"""**{name}**: of {100 * total:+.1f} points over `tome per_row`, {100 * fixed:+.1f} come from
one fixed pattern and {100 * frequency:+.1f} from choosing destinations by frequency.

{table(["difference", "ratio 0.3", "ratio 0.5", "ratio 0.7", "mean"], rows)}""")
    return "\n\n".join([
        """## Frequency or determinism?

The paper's merging is deterministic. The ToMe it is compared with draws a new pattern in every call, so two classes
may differ because they were merged differently. Give ToMe one fixed pattern, and the rest of the difference is what
the Laplacian brings:""",
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
        """## Generation

All differences of the Fréchet distance, value by value, ± one standard error. Below zero, the first generates
better.""",
        *parts,
    ])  # fmt: skip

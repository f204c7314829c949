"""What tuning gives beside the best uniform operator of the same saving, and what presets were chosen by."""

from pathlib import Path

from text import RECORDS, RESULTS, signs, table

from bigain.compression.presets import PRESETS, WORDS
from bigain.compression.presets import RECORDS as MEASURED
from bigain.experiments.report import Report, Row, read_report
from bigain.experiments.tables import footnote

MODELS = ("fashion-unet", "fashion-dit", "cifar-unet", "fashion-mmdit")
KINDS = {
    "unet": "U-Nets",
    "transformer": "DiT, PixArt",
    "joint": "joint attention",
}


def tuned() -> str:
    """A table of all models with a record; nothing before there is one."""
    reports = {model: read_report(path, against="uniform") for model in MODELS if (path := record(model)).is_file()}
    if not reports:
        return ""
    heads = ["model", "saved", "accuracy to uniform, points", "same label: tuned, uniform", "FD to uniform",
             "SSIM: tuned, uniform"]  # fmt: skip
    rows = [line(model, row, uniform) for model, report in reports.items() for row, uniform in pairs(report)]
    notes = "\n".join(f"- {model}: {footnote(report)}" for model, report in reports.items())
    return f"{table(heads, rows)}\n\n{verdict(list(reports.values()))}\n\n{notes}"


def record(model: str) -> Path:
    return RESULTS / f"tuned-{model}.sqlite"


def pairs(report: Report) -> list[tuple[Row, Row]]:
    """Tuned rows with the uniform rows of their savings."""
    uniform = {row.values["save"]: row for row in report.rows if row.name == "uniform"}
    return [(row, uniform[row.values["save"]]) for row in report.rows if row.name == "tuned"]


def line(model: str, row: Row, uniform: Row) -> list[str]:
    dense = [one.agreement for one in (row, uniform)]
    change, distance = row.change, frechet(row)
    return [
        f"`{model}`",
        f"{100 * (row.saved or 0):.1f} %, {100 * (uniform.saved or 0):.1f} %",
        "–"
        if change is None
        else signs(f"{100 * change.value:+.1f} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"),
        ", ".join("–" if one is None else f"{100 * one.value:.1f} %" for one in dense),
        "–" if distance is None else signs(f"{distance[0]:+.1f} ± {distance[1]:.1f}"),
        ", ".join(
            f"{one.samples.ssim.value:.3f}" if one.samples and one.samples.ssim else "–" for one in (row, uniform)
        ),
    ]


def frechet(row: Row) -> tuple[float, float] | None:
    found = [value for name, value in (row.distance_changes or {}).items() if name.startswith("F")]
    return (found[0].value, found[0].error) if found else None


def verdict(reports: list[Report]) -> str:
    """Counts of differences beyond their intervals, in both directions."""
    rows = [row for report in reports for row, _ in pairs(report)]
    accuracy = [(row.change.low > 0, row.change.high < 0) for row in rows if row.change]
    images = [(f[0] < -2 * f[1], f[0] > 2 * f[1]) for row in rows if (f := frechet(row))]
    words = [
        f"{name}: better in {sum(a for a, _ in found)}, worse in {sum(b for _, b in found)} of {len(found)}"
        for name, found in (("accuracy", accuracy), ("Fréchet distance", images))
    ]
    return f"Beyond their 95 % intervals, tuned settings are, in {'; in '.join(words)} comparisons."


def presets() -> str:
    """What the operator of each preset was measured to save and to change."""
    heads = ["models", "preset", "operator", "saved FLOPs", "FD", "SSIM", "accuracy, corrected"]
    rows = []
    for kind, words in PRESETS.items():
        report, corrected = measured(kind), corrections(kind)
        for word in WORDS:
            row = next(row for row in report.rows if row.label == labelled(words[word]))
            other = next((one for one in corrected if one.label == labelled(words[word], " corrected")), None)
            rows.append([KINDS[kind], word, f"`{words[word]}`", *numbers(row, other)])
    names = ", ".join(f"`{name}`" for name in MEASURED.values())
    return (
        f"{table(heads, rows)}\n\nChanges against the uncompressed bundled model of the kind (records {names}; "
        "corrected accuracies from the records of [group correction](correction.md)), with 95 % intervals and ± one "
        "standard error; – is not measured. Of larger models and images only the FLOPs are known: `bigain flops "
        "--operator fast`. Where a row shows a loss that is too large for you, take the preset above it."
    )


def measured(kind: str) -> Report:
    name = f"{MEASURED[kind]}.sqlite"
    return read_report(RECORDS / name if (RECORDS / name).is_file() else RESULTS / name)


def corrections(kind: str) -> list[Row]:
    """Rows of the records about the correction, for the same model."""
    name = {"unet": "correction-unet", "transformer": "correction-dit", "joint": "main-mmdit"}[kind]
    return read_report(RESULTS / f"{name}.sqlite").rows


def labelled(operator: str, corrected: str = "") -> str:
    """`tome(ratio=0.5)` -> `tome per_call, ratio 0.5`, as records name it."""
    name, _, rest = operator.removesuffix(")").partition("(")
    key, _, value = rest.partition("=")
    return f"{'tome per_call' if name == 'tome' else name}{corrected}, {key} {value}"


def numbers(row: Row, corrected: Row | None) -> list[str]:
    distance, change = frechet(row), corrected.change if corrected else None
    return [
        f"{100 * (row.saved or 0):.1f} %",
        "–" if distance is None else signs(f"{distance[0]:+.1f} ± {distance[1]:.1f}"),
        f"{row.samples.ssim.value:.3f}" if row.samples and row.samples.ssim else "–",
        "–"
        if change is None
        else signs(f"{100 * change.value:+.1f} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"),
    ]

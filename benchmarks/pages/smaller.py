"""The smaller experiments, one table each."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from contrasts import Contrast, accuracy_contrast, compared, nearer
from text import IMAGES, RESULTS, signs, table

from bigain.experiments.report import Report, Row
from bigain.experiments.tables import columns, footnote
from bigain.plots import curves, save_figure

SHOWN = ("setting", "accuracy %", "against uncompressed", "p (McNemar, Holm)", "same label %", "FD-fashion",
         "FD-fashion against uncompressed", "recognised %", "SSIM", "saved %")  # fmt: skip

TIMED = ("setting", "saved %", "speed-up")


class Small(NamedTuple):
    """A smaller experiment: with what its rows are compared besides the uncompressed model, and if it has a curve.

    All are compared with the row `against`, or some with others, by name: `pairs`.
    """

    stem: str
    against: str | None = None
    curve: bool = False
    timed: bool = False  # it asks for times only
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def record(self) -> Path:
        return RESULTS / f"{self.stem}.sqlite"


def one_plan(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{name}, one plan", name) for name in names)


SMALL = tuple(small for small in (
    Small("motivation", "tome per_row", curve=True),
    Small("equal-flops", "tome per_row, ratio 0.5"),
    Small("scorers", "gated_merge, scorer laplacian_l1, ratio 0.7"),
    Small("locations", pairs=(
        *((f"{name}, self + {more}", f"{name}, self") for name in ("tome per_row", "gated_merge")
          for more in ("cross", "MLP", "cross + MLP")),
        ("gated_merge, self", "tome per_row, self"),
    )),
    Small("further-speedup", "gated_merge"),
    Small("kv-selection", "todo, factor 2"),
    Small("alpha-sensitivity", "kv_downsample, factor 2, alpha 1.0", curve=True),
    Small("alpha-schedules", "todo, factor 2"),
    Small("hybrids"),
    Small("sharing-unet", pairs=one_plan("gated_merge", "tome per_row")),
    Small("sharing-dit", pairs=one_plan("gated_merge", "gated_merge local", "block_merge", "tome per_row")),
    Small("subset-robustness-1", "tome per_row"),
    Small("subset-robustness-2", "tome per_row"),
    Small("wall-clock", timed=True),
) if small.record.is_file())  # fmt: skip


def smaller() -> str:
    return "\n\n".join([
        """# Smaller experiments

Each section names the command that repeats it. The records are in `benchmarks/results`.

- "Same label" is how often the answer is that of the uncompressed model, right or wrong.
- With n = 200 an interval reaches three to five points to each side, so only large differences show.
- "Beyond chance" means p < 0.05 by McNemar's test, with Holm's correction for the rows of the table. For pairs it means
  that zero lies outside the bootstrap interval of the mean over ratios, at 95 % for all pairs of a table together.
- Times were taken for the wall clock only, on an otherwise idle machine.

In short:""",
        "\n".join(brief(small) for small in SMALL),
        *(section(small) for small in SMALL),
    ])  # fmt: skip


def brief(small: Small) -> str:
    """The title, as a link, and what the most telling comparison says."""
    title = compared(small.record).title
    place = re.sub(r"[^\w-]+", "-", title.lower().replace(",", ""))
    if small.timed:
        found = paced(compared(small.record))
    else:
        found = told(contrasts(small)) if small.pairs else verdict(compared(small.record, small.against))
    return f"- [{title}](#{place}): {found}"


def section(small: Small) -> str:
    report = compared(small.record)
    shown = TIMED if small.timed else SHOWN
    heads = [column for column in columns(report) if column.head in shown]
    names, rows = [column.head for column in heads], [[column.text(row) for column in heads] for row in report.rows]
    words = [paced(report) if small.timed else verdict(report)]
    if small.against:
        other = compared(small.record, small.against)
        after = {
            f"against {small.against}": "p (McNemar, Holm)",
            "p (McNemar, Holm)": f"against {small.against}",
            f"FD-fashion against {small.against}": "FD-fashion against uncompressed",
        }
        for column in columns(other):
            if column.head in after:
                place = names.index(after[column.head]) + 1
                names.insert(place, column.head)
                for row, theirs in zip(rows, other.rows, strict=True):
                    row.insert(place, column.text(theirs))
        words.append(verdict(other))
    n = max(row.accuracy.n for row in report.rows if row.accuracy)
    made = max((row.samples.n for row in report.rows if row.samples), default=0)
    count = f"n = {n}" + (f" classified and {made} generated" if made else "")
    parts = [
        f"""## {report.title}

{report.about} `bigain run benchmarks/experiments/bundled/{small.stem}.toml`,
model `{report.experiment["model"]}`, {count}, seed {report.experiment["seed"]}."""
    ]
    if small.curve:
        parts.append(f"![{report.title}: accuracy of {report.experiment['model']}](images/{small.stem}.png)")
    parts += [table(names, [[signs(cell) for cell in row] for row in rows]), "\n".join(words)]
    if small.timed:
        parts.append(footnote(report))
    if small.pairs:
        found = contrasts(small)
        heads = ["difference in points", *(f"ratio {value}" for value in found[0].each), "mean"]
        wide = len(heads) if len(found[0].each) > 1 else 2  # no mean of one value
        parts += [table(heads[:wide], [contrast.cells()[:wide] for contrast in found]), told(found)]
    return "\n\n".join(parts)


def contrasts(small: Small) -> list[Contrast]:
    """Each pair at each ratio and in the mean, which decides, at a level that allows for the number of pairs."""
    return [accuracy_contrast(small.record, *pair, "ratio", len(small.pairs)) for pair in small.pairs]


def told(found: list[Contrast]) -> str:
    """Which first rows of the pairs are better or worse in the mean, in words."""
    words = [
        f"{word} beyond chance: {'; '.join(f'{one.ours} than {one.theirs}' for one in found if one.verdict == sign)}."
        for sign, word in ((1, "Better"), (-1, "Worse"))
        if any(one.verdict == sign for one in found)
    ]
    return " ".join(words) or "No pair differs beyond chance."


def paced(report: Report) -> str:
    """Which rows are faster or slower than the uncompressed model in the whole of their interval, in words."""
    timed = [row for row in report.rows if row.speed is not None]
    rounds = min(row.speed.n for row in timed)
    closer = "[Performance](performance.md) measures larger models more closely."
    if not all(row.speed.bounded for row in timed):
        return f"Medians of {rounds} rounds, too few for intervals: no row is shown to be faster or slower. {closer}"
    found = [
        f"{word} than {report.against} in the whole interval of {rounds} rounds: {', '.join(names)}"
        for word, names in (
            ("faster", named(row for row in timed if row.speed.low > 1)),
            ("slower", named(row for row in timed if row.speed.high < 1)),
        )
        if names
    ]
    first = f"{'; '.join(found)}; no other row." if found else "No row is faster or slower in its whole interval."
    return f"{first[0].upper()}{first[1:]} {closer}"


def verdict(report: Report) -> str:
    """Which rows differ beyond chance from what they are compared with, in words."""
    told = [row for row in report.rows if row.p is not None and row.change is not None and row.name != "none"]
    worse = named(row for row in told if row.p < 0.05 and row.change.value < 0)
    better = named(row for row in told if row.p < 0.05 and row.change.value > 0)
    made = [row for row in told if "FD-fashion" in (row.distance_changes or {})]
    if not made:
        return listed("", report.against, worse, better)
    signs = [nearer(row.distance_changes["FD-fashion"], len(row.samples.distances["FD-fashion"].parts), len(made))
             for row in made]  # fmt: skip
    farther, near = (named(row for row, sign in zip(made, signs, strict=True) if sign == wanted) for wanted in (-1, 1))
    return " ".join([
        listed(" in accuracy", report.against, worse, better),
        listed(" in FD-fashion", report.against, farther, near),
    ])  # fmt: skip


def listed(what: str, against: str, worse: list[str], better: list[str]) -> str:
    if not worse + better:
        return f"No difference{what} to {against} is beyond chance."
    found = [
        f"{word} than {against}{what}, beyond chance: {', '.join(rows)}."
        for word, rows in (("Worse", worse), ("Better", better))
        if rows
    ]
    return " ".join(found)


def named(rows: Iterable[Row]) -> list[str]:
    """Each name once, with all its values."""
    values: dict[str, list[str]] = {}
    for row in rows:
        values.setdefault(row.name, []).append(row.label.removeprefix(row.name).removeprefix(", "))
    return [f"{name} ({'; '.join(found)})" if any(found) else name for name, found in values.items()]


def draw() -> None:
    for small in SMALL:
        if small.curve:
            save_figure(curves(compared(small.record)), IMAGES / f"{small.stem}.png")

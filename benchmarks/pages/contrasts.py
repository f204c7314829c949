"""Two rows of a record against each other, on the same images and from the same seeds."""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t
from text import points

from bigain.experiments.report import Report, read_report
from bigain.experiments.store import Store
from bigain.metrics.distances import Difference, Distance, difference
from bigain.metrics.intervals import Estimate
from bigain.metrics.paired import mean_difference


class Contrast(NamedTuple):
    """`ours` less `theirs` at each value of a swept variable, and in the mean of all values."""

    ours: str
    theirs: str
    each: dict[float, Estimate]
    mean: Estimate
    strict: Estimate  # the mean with the interval that decides

    @property
    def verdict(self) -> int:
        """1: better beyond chance in the mean, -1: worse, 0: neither is shown."""
        return (self.strict.low > 0) - (self.strict.high < 0)

    def cells(self) -> list[str]:
        return [f"{self.ours} − {self.theirs}", *(points(*found[:3]) for found in (*self.each.values(), self.mean))]


@functools.cache
def compared(record: Path, theirs: str | None = None) -> Report:
    """A record's report against some row, or the uncompressed one; many contrasts ask for the same.

    The page says which records were made on an idle machine, and shows the times of those only.
    """
    return read_report(record, theirs, idle=True)


def distance_name(report: Report) -> str | None:
    """The Fréchet distance of a record."""
    names = (name for row in report.rows if row.samples for name in row.samples.distances)
    return next((name for name in names if name.startswith("F")), None)


@functools.cache
def accuracy_contrast(record: Path, ours: str, theirs: str, variable: str, family: int = 1) -> Contrast:
    """Of accuracies; the mean is over values within an image first, so that an image counts once.

    As one of a `family` of contrasts, it is shown at the level 0.05 / family.
    """
    report = compared(record, theirs)
    each = {row.values[variable]: row.change for row in report.rows if row.name == ours and row.change}
    sides = means(record, ours, theirs, list(each), variable)
    return Contrast(ours, theirs, each, mean_difference(*sides), mean_difference(*sides, confidence=1 - 0.05 / family))


def means(record: Path, ours: str, theirs: str, values: list[float], variable: str) -> tuple[np.ndarray, np.ndarray]:
    """For each image that all have seen, the share of values at which it is right."""
    store = Store(record, read_only=True)
    places = {(spec["name"], spec["values"].get(variable)): number for number, _, spec in store.settings()}
    sides = [[store.decisions(places[name, value]) for value in values] for name in (ours, theirs)]
    store.close()
    names = sorted(set.intersection(*(set(found) for side in sides for found in side)))
    ours_right, theirs_right = (
        np.array([np.mean([found[name].predicted in found[name].truth for found in side]) for name in names])
        for side in sides
    )
    return ours_right, theirs_right


def nearer(change: Difference, halves: int, family: int = 1) -> int:
    """By Student's t, 1: nearer to real images beyond chance, -1: farther, 0: neither is shown."""
    limit = t.ppf(1 - 0.025 / family, halves - 1) * change.error
    return int(change.value < -limit) - int(change.value > limit)


class DistanceContrast(NamedTuple):
    """Distances to real images of `ours` less those of `theirs`, at each value and in the mean; the same seeds."""

    ours: str
    theirs: str
    each: list[Difference]
    mean: Difference
    halves: int
    family: int

    @property
    def verdict(self) -> int:
        """1: nearer to real images beyond chance in the mean, -1: farther, 0: neither is shown."""
        return nearer(self.mean, self.halves, self.family)

    def cells(self) -> list[str]:
        found = (*self.each, self.mean)
        numbers = (f"{one.value:+.2f} ± {one.error:.2f}".replace("-", "−") for one in found)
        return [f"{self.ours} − {self.theirs}", *numbers]


@functools.cache
def distance_contrast(
    record: Path, ours: str, theirs: str, variable: str = "ratio", family: int = 1
) -> DistanceContrast:
    """Of Fréchet distances; halves of the images are the same everywhere, so that their mean has a paired error too."""
    name = distance_name(compared(record)) or ""
    rows = [row for row in compared(record).rows if row.samples]
    places = {(row.name, row.values.get(variable)): row.samples.distances[name] for row in rows if row.samples}
    both = [value for name, value in places if name == ours and (theirs, value) in places]
    pairs = [(places[ours, value], places[theirs, value]) for value in both]
    mean = difference(*(averaged([pair[side] for pair in pairs]) for side in (0, 1)))
    halves = len(pairs[0][0].parts)
    return DistanceContrast(ours, theirs, [difference(*pair) for pair in pairs], mean, halves, family)


def averaged(found: list[Distance]) -> Distance:
    """Of several settings, half by half."""
    parts = np.mean([one.parts for one in found], axis=0)
    return found[0]._replace(value=float(np.mean([one.value for one in found])), parts=tuple(parts.tolist()))

"""Two rows of a record against each other, on the same images and from the same seeds."""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from text import points

from bigain.bench.report import Report, read_report
from bigain.bench.store import Store
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
    """A record's report against some row, or the uncompressed one; many contrasts ask for the same."""
    return read_report(record, theirs)


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


def distance_contrast(record: Path, ours: str, theirs: str) -> list[str]:
    """Of Fréchet distances of images from the same seeds, with standard errors; below zero, ours are nearer to real."""
    rows = [row for row in compared(record, theirs).rows if row.name == ours]
    changes = [(row.distance_changes or {})["FD-fashion"] for row in rows]
    return [f"{ours} − {theirs}", *(f"{found.value:+.2f} ± {found.error:.2f}".replace("-", "−") for found in changes)]

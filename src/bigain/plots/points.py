"""A report as points over their cost, as SVG for pages with a script: each point can be looked at and chosen."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bigain.escape import html as escape
from bigain.experiments.report import Report
from bigain.plots.reading import label_of, looks, measured, point
from bigain.plots.style import Look

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 16, 48
TICKS = 5


class Mark(NamedTuple):
    """One setting: what it costs, what was measured of it, and its words."""

    label: str
    cost: float  # MFLOPs of a forward pass
    value: float
    low: float
    high: float
    colour: str
    hollow: bool  # methods beyond the colours that there are
    words: str


def marks(report: Report, what: str) -> list[Mark]:
    """The settings with a cost and this measure."""
    styles = looks(report)
    found = []
    for row in report.rows:
        measure = point(row, what)
        if row.flops is None or measure is None:
            continue
        value, low, high, n = measure
        words = f"{row.label}: {what} {value:.2f} [{low:.2f}, {high:.2f}], n = {n}, {row.flops / 1e6:.1f} MFLOPs"
        saved = f", {100 * row.saved:.1f} % saved" if row.saved else ""
        style = styles[row.name]
        found.append(Mark(row.label, row.flops / 1e6, value, low, high, ink(style), style.line == "--", words + saved))
    return found


def ink(style: Look) -> str:
    """A method's colour; black is the colour of text, which is light on a dark page."""
    return "var(--ink)" if style.colour == "black" else style.colour


def scatter(report: Report, what: str) -> str:
    """The measure of all settings over the FLOPs of a forward pass, with intervals."""
    found = marks(report, what)
    if not found:
        known = ", ".join(measured(report)) or "nothing"
        return f"<p>{escape(report.title)} has no {escape(what)} with a cost; it has {escape(known)}.</p>"
    across = Axis.of([mark.cost for mark in found], LEFT, WIDTH - RIGHT)
    up = Axis.of([end for mark in found for end in (mark.low, mark.high)], HEIGHT - BOTTOM, TOP)
    return (
        f'<svg class="points" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="{escape(label_of(what))} of {len(found)} settings over their cost">'
        f"{grid(across, up, label_of(what))}{''.join(drawn(mark, across, up) for mark in found)}</svg>{legend(report)}"
    )


class Axis(NamedTuple):
    """Values from low to high, drawn from one place to another."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, values: Sequence[float], start: float, end: float) -> "Axis":
        low, high = min(values), max(values)
        room = 0.05 * (high - low) or max(1e-9, abs(high), 1) * 0.05
        return cls(low - room, high + room, start, end)

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers, about five."""
        rough = (self.high - self.low) / TICKS
        size = 10.0 ** np.floor(np.log10(rough))
        step = min((size * part for part in (1, 2, 5, 10)), key=lambda step: abs(step - rough))
        return list(np.arange(np.ceil(self.low / step), np.floor(self.high / step) + 1) * step)


def grid(across: Axis, up: Axis, name: str) -> str:
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up.place(y):.1f}" y2="{up.place(y):.1f}"/>'
        f'<text class="up" x="{LEFT - 8}" y="{up.place(y) + 4:.1f}">{y:g}</text>'
        for y in (round(tick, 9) for tick in up.ticks())
    ]
    lines += [
        f'<text class="across" x="{across.place(x):.1f}" y="{HEIGHT - BOTTOM + 20}">{x:g}</text>'
        for x in (round(tick, 9) for tick in across.ticks())
    ]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return (
        f'<g class="grid" aria-hidden="true">{"".join(lines)}'
        f'<text class="across" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">MFLOPs of a forward pass</text>'
        f'<text class="across" transform="rotate(-90 14 {middle})" x="14" y="{middle}">{escape(name)}</text></g>'
    )


def drawn(mark: Mark, across: Axis, up: Axis) -> str:
    x, y = across.place(mark.cost), up.place(mark.value)
    return (
        f'<g class="mark{" hollow" * mark.hollow}" tabindex="0" role="button" data-label="{escape(mark.label)}" '
        f'style="--own: {mark.colour}" '
        f'aria-label="{escape(mark.words)}"><title>{escape(mark.words)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up.place(mark.low):.1f}" y2="{up.place(mark.high):.1f}"/>'
        f'<circle class="target" cx="{x:.1f}" cy="{y:.1f}" r="12"/><circle cx="{x:.1f}" cy="{y:.1f}" r="5"/></g>'
    )


def legend(report: Report) -> str:
    names = [
        f'<li><i class="{"hollow" * (look.line == "--")}" style="--own: {ink(look)}"></i>{escape(name)}</li>'
        for name, look in looks(report).items()
    ]
    return f'<ul class="legend">{"".join(names)}</ul>'

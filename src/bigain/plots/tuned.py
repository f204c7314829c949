"""Figures of a tuning: the sensitivity map, and what was verified, with the choice."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bigain.plots.style import COLOURS, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bigain.tuning.goal import Candidate
    from bigain.tuning.search import Measured
    from bigain.tuning.tune import Tuned

NAMES = ("classification", "generation")


@styled
def sensitivity(found: "Tuned") -> "Figure":
    """What each action alone changes at each site, in relation to what it saves there; empty where not measured."""
    rows = found.map.rows
    sites = [site for site in found.map.sites if any(row.action.site == site.name for row in rows)]
    actions = list(dict.fromkeys(label(row) for row in rows))
    tables = [table(found, [site.name for site in sites], actions, number) for number in (0, 1)]
    shown = [(name, values) for name, values in zip(NAMES, tables, strict=True) if np.isfinite(values).any()]
    height = 1.6 + 0.17 * len(sites)
    words = (
        "Each action acts at this site alone. The colour is the squared error per FLOP saved, on a logarithmic scale "
        "of its own for each capability: dark saves at little cost. White was not measured or saves nothing."
    )
    figure = new_figure(2.6 + 0.3 * len(actions) * len(shown), max(3.0, height + 1.2), "What each site bears", words)
    panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for axes, (name, values) in zip(panels, shown, strict=True):
        axes.imshow(np.log10(values), aspect="auto", cmap="viridis", interpolation="nearest")
        axes.set_xticks(range(len(actions)), actions, rotation=90, fontsize=6)
        axes.set_title(name, loc="left", fontweight="bold")
        axes.grid(visible=False)
    panels[0].set_yticks(range(len(sites)), [short(site.name) for site in sites], fontsize=6)
    return figure


def table(found: "Tuned", sites: Sequence[str], actions: Sequence[str], number: int) -> np.ndarray:
    """Effect over saving: (sites, actions), NaN where not measured."""
    values = np.full((len(sites), len(actions)), np.nan)
    for row in found.map.rows:
        effects = row.effect[number]
        if effects is None or row.saved[number] <= 0:
            continue
        total = found.map.total([effects, None] if number == 0 else [None, effects])[number]
        if total > 0:
            values[sites.index(row.action.site), actions.index(label(row))] = total / row.saved[number]
    return values


def label(row: "Measured") -> str:
    return row.action.operator + (" corrected" if row.action.correct else "")


def short(name: str) -> str:
    """Names of modules without what all share."""
    return name.replace("transformer_blocks.", "").replace("attentions.", "").replace("_blocks.", " ")


@styled
def frontier(found: "Tuned") -> "Figure":
    """Saved FLOPs against what is lost: what was verified, tuned and uniform, the choice, and what was foretold."""
    asked = [(name, number) for number, name in enumerate(NAMES) if losses(found.chosen)[number] is not None]
    words = (
        "Verified on images and seeds that nothing was chosen on; the ring marks the choice. Down and to the right is "
        "better. Bars are 95 % intervals of SSIM. The line is what single actions foretell, if their effects add."
    )
    figure = new_figure(4.2 * len(asked), 3.4, "Saved and lost", words)
    panels = figure.subplots(1, len(asked), squeeze=False)[0]
    for axes, (name, number) in zip(panels, asked, strict=True):
        draw(axes, found, number)
        axes.set_title(name, loc="left", fontweight="bold")
        axes.set_xlabel("saved FLOPs, %")
        axes.set_ylabel(("error of class differences", "1 − SSIM to uncompressed")[number])
        axes.set_ylim(0, 2 * max(losses(one)[number] or 0 for one in found.candidates) or 1)
    panels[-1].legend(fontsize=7)
    return figure


def losses(candidate: "Candidate") -> tuple[float | None, float | None]:
    verified = candidate.verified
    return verified.difference_error, None if verified.ssim is None else 1 - verified.ssim.value


def draw(axes: "Axes", found: "Tuned", number: int) -> None:
    for tuned, colour, marker, text in ((True, COLOURS[0], "o", "tuned"), (False, COLOURS[1], "s", "one operator")):
        rows = [one for one in found.candidates if one.tuned == tuned]
        x = [100 * one.verified.saved[number] for one in rows]
        y: list[Any] = [losses(one)[number] for one in rows]
        axes.scatter(x, y, color=colour, marker=marker, label=text, zorder=3)
        for place, value, one in zip(x, y, rows, strict=True):
            if number == 1 and one.verified.ssim is not None and one.verified.ssim.bounded:
                axes.plot(
                    [place] * 2, [1 - one.verified.ssim.high, 1 - one.verified.ssim.low], color=colour, linewidth=1
                )
            if one is found.chosen:
                axes.scatter([place], [value], s=120, facecolors="none", edgecolors=GREY, linewidths=1.5, zorder=4)
    points = [(100 * point.saved[number], point.lost[number]) for point in found.frontier]
    if points:
        axes.plot(*zip(*points, strict=True), color=COLOURS[0], linewidth=1, alpha=0.5, label="foretold, tuned")
    if found.goal.save is not None:
        axes.axvline(100 * found.goal.save, color=GREY, linestyle=":", linewidth=1)

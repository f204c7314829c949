"""All figures of a report."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bigain.plots.curves import changes, curves, pareto
from bigain.plots.reading import measured
from bigain.plots.samples import gallery, spectra
from bigain.plots.style import NothingToDrawError, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bigain.experiments.report import Report


def write_figures(report: "Report", folder: Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """All figures that the report has data for; the same report gives the same bytes."""
    drawings: dict[str, Callable[[Report], Figure]] = {
        what: functools.partial(curves, what=what) for what in measured(report)
    }
    drawings |= {"changes": changes, "pareto": pareto, "spectra": spectra, "gallery": gallery}
    paths = []
    for name, draw in drawings.items():
        try:
            figure = draw(report)
        except NothingToDrawError:
            continue
        paths += [save_figure(figure, folder / f"{name}.{form}") for form in formats]
    return paths

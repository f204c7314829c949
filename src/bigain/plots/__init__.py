"""Figures from reports; nothing is computed here."""

from bigain.plots.all import write_figures
from bigain.plots.curves import changes, curves, pareto
from bigain.plots.samples import gallery, spectra
from bigain.plots.style import save_figure
from bigain.plots.theory import theory
from bigain.plots.training import loss_curve

__all__ = ["changes", "curves", "gallery", "loss_curve", "pareto", "save_figure", "spectra", "theory", "write_figures"]

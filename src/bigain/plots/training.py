"""The training curve of a bundled model."""

from typing import TYPE_CHECKING, Any

from bigain.plots.style import COLOURS, NothingToDrawError, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def loss_curve(card: dict[str, Any]) -> "Figure":
    """How did the loss change during training? From a bundled model's card."""
    from matplotlib.ticker import LogLocator

    curve = card.get("curve")
    if not curve:
        raise NothingToDrawError(f"the card of {card.get('name')} has no loss curve; only diffusion models have one")
    last = curve[-1]
    words = f"Last: training {last['loss']:.4f}, validation {last['validation']:.4f} (averaged weights, fixed noise)."
    figure = new_figure(6.0, 3.4, f"{card['name']}: loss during training", words)
    axes = figure.subplots()
    samples = [place["samples"] / 1000 for place in curve]
    for key, text, colour in (("loss", "training", COLOURS[1]), ("validation", "validation", COLOURS[0])):
        axes.plot(samples, [place[key] for place in curve], color=colour, marker=".", label=text)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 6)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("training samples, thousands")
    axes.set_ylabel("mean squared error of the noise")
    axes.legend()
    return figure

"""The paper's theory beside what was measured, from the JSON of `bigain analyze`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bigain.escape import terminal
from bigain.plots.style import COLOURS, GREY, MARKERS, NothingToDrawError, add_legend, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Found = dict[str, Any]
SAME = {"mu": ("margin mu", COLOURS[0], "o"), "sigma": ("variance sigma²", COLOURS[1], "s")}


@styled
def theory(found: Found) -> "Figure":
    """Does r foretell accuracy, is detail margin-rich, what comes back of each band, and is r' predicted?"""
    rows = [row for row in found["rows"] if row["label"] != found["dense"]]
    if not rows:
        raise NothingToDrawError(f"{found['title']!r} has no compressed setting")
    banded = "bands" in found
    words = (
        f"{found['data']}, n = {found['n']}, {found['trials']} trials, seed {found['seed']}; bars: 95 % intervals over "
        "images (bootstrap; Tango for changes of accuracy). r = sigma / mu of the paired differences to the strongest "
        "rivals; r' is r under compression. Rank correlation: of r on half of the images with accuracy on the others."
    )
    figure = new_figure(10.5, 7.4 if banded else 4.2, f"{found['model']}: the theory beside what was measured", words)
    panels = figure.subplots(2 if banded else 1, 2, squeeze=False)
    looks = look_of(rows)
    accuracy_panel(panels[0, 0], found, rows, looks)
    misses_panel(panels[0, 1], rows, looks) if not banded else bands_panel(panels[0, 1], found)
    if banded:
        response_panel(panels[1, 0], found, rows, looks)
        predicted_panel(panels[1, 1], rows, looks)
    add_legend(figure, [panels[0, 0]])
    return figure


def look_of(rows: Sequence[Found]) -> dict[str, tuple[str, str]]:
    """A colour for each name, and a marker for each of its values."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    counts: dict[str, int] = {}
    found = {}
    for row in rows:
        place = counts[row["name"]] = counts.get(row["name"], -1) + 1
        which = names.index(row["name"])
        found[row["label"]] = (
            COLOURS[which % len(COLOURS)],
            MARKERS[(3 * (which // len(COLOURS)) + place) % len(MARKERS)],
        )
    return found


def draw(axes: "Axes", row: Found, look: tuple[str, str], x: Found, y: Found, scale: float = 1.0) -> None:
    """A setting with the intervals of both its coordinates."""
    if any(part["value"] is None for part in (x, y)):
        return
    bars: Any = {"xerr": ends(x, 1.0), "yerr": ends(y, scale)}
    style: Any = {"color": look[0], "marker": look[1], "linestyle": "none", "label": terminal(row["label"])}
    axes.errorbar(x["value"], scale * y["value"], elinewidth=0.6, **style, **bars)


def ends(found: Found, scale: float) -> list[list[float]] | None:
    """How far an interval reaches down and up, if it has both ends."""
    value, low, high = (found.get(key) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return None
    return [[scale * max(0.0, value - low)], [scale * max(0.0, high - value)]]


def accuracy_panel(axes: "Axes", found: Found, rows: Sequence[Found], looks: dict[str, tuple[str, str]]) -> None:
    for row in rows:
        draw(axes, row, looks[row["label"]], row["ratio"], row["change"], 100)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
    told = found["foretold"].get("ratio")
    rank = "" if told is None else f" Rank correlation {told['other_images']['value']:.2f}"
    axes.set_title(f"Does r foretell accuracy?{rank}".replace("-", "−"))
    axes.set_xlabel("r' / r, measured; left of 1 the criterion holds")
    axes.set_ylabel("change of accuracy, points")


def bands_panel(axes: "Axes", found: Found) -> None:
    dense = next(row for row in found["rows"] if row["label"] == found["dense"])
    edges, sizes = found["bands"]["from"], found["bands"]["frequencies"]
    covariance = dense["covariance"]
    shares = {
        "mu": [part["value"] for part in dense["bands"]["mu"]],
        "sigma": [sum(line) for line in covariance],
    }
    for kind, (words, colour, marker) in SAME.items():
        total = sum(shares[kind])
        axes.plot(
            edges, [part / total for part in shares[kind]], color=colour, marker=marker, label=f"share of {words}"
        )
    axes.plot(edges, [size / sum(sizes) for size in sizes], color=GREY, linestyle=":", label="share of frequencies")
    for edge, part in zip(edges, dense["bands"]["richness"], strict=True):
        if part["low"] is not None and (part["low"] > 0 or part["high"] < 0):
            axes.text(edge, 0.02, "rich" if part["low"] > 0 else "poor", transform=axes.get_xaxis_transform(),
                      ha="center", fontsize=7.5, color=GREY)  # fmt: skip
    axes.set_title("Which bands are margin-rich? Without compression")
    axes.set_xlabel("band, from … cycles a token")
    axes.set_xticks(edges, [f"{edge:.3g}" for edge in edges])
    axes.legend(fontsize=7.5)


def response_panel(axes: "Axes", found: Found, rows: Sequence[Found], looks: dict[str, tuple[str, str]]) -> None:
    edges = found["bands"]["from"]
    for kind, line in (("tokens", ":"), ("differences", "-")):
        for row in rows:
            if kind in row["response"]:
                gains = [part["value"] for part in row["response"][kind]["gain"]]
                colour, marker = looks[row["label"]]
                style: Any = {"linestyle": "-", "marker": marker} if line == "-" else {"linestyle": line}
                axes.plot(edges, gains, color=colour, markersize=4, linewidth=1, **style)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_title("What comes back of tokens (dotted), class differences")
    axes.set_xlabel("band, from … cycles a token")
    axes.set_ylabel("response")
    axes.set_xticks(edges, [f"{edge:.3g}" for edge in edges])


def predicted_panel(axes: "Axes", rows: Sequence[Found], looks: dict[str, tuple[str, str]]) -> None:
    for row in rows:
        for kind, filled in (("tokens", False), ("differences", True)):
            part = row["predicted"].get(kind)
            if part is None or part["ratio"]["value"] is None or row["ratio"]["value"] is None:
                continue
            colour, marker = looks[row["label"]]
            axes.plot(row["ratio"]["value"], part["ratio"]["value"], color=colour, marker=marker, linestyle="none",
                      markerfacecolor=colour if filled else "white")  # fmt: skip
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color=GREY, linestyle=":", linewidth=1)
    axes.set_xlim(low, high)
    axes.set_title("Is r' predicted? By class differences; by tokens (open)")
    axes.set_xlabel("r' / r, measured")
    axes.set_ylabel("r' / r, predicted")


def misses_panel(axes: "Axes", rows: Sequence[Found], looks: dict[str, tuple[str, str]]) -> None:
    for row in rows:
        for part in row["misses"]:
            if part["bound"] is not None:
                colour, marker = looks[row["label"]]
                axes.plot(part["bound"], part["real"], color=colour, marker=marker, linestyle="none")
    axes.axline((0, 0), slope=1, color=GREY, linestyle=":", linewidth=1)
    axes.set_title("Cantelli's bound beside the real misses")
    axes.set_xlabel("bound, mean over images with a margin")
    axes.set_ylabel("real misses")

"""Drawings of what a plan does to the tokens of an image."""

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.pictures import to_picture
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Assignment, Identity, Plan, Pooled, Selected
from bigain.tokens.soft import SoftAssignment, tile_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCORE = "Score: high means detail. Plans: for the first noise draw, over the faded image"


class View(NamedTuple):
    """A plan as it is drawn over the image, token by token: (H, W) each."""

    cells: np.ndarray  # lines are drawn between different numbers
    filled: np.ndarray  # number of a colour, or -1
    framed: np.ndarray
    greyed: np.ndarray
    words: str
    soft: bool = False  # by shares: colours show the largest, frames the places of the merged tokens


def legend(views: Sequence[View]) -> str:
    """The legend for the signs in use."""
    signs = {
        "one colour: merged into one token": any((seen.filled >= 0).any() and not seen.soft for seen in views),
        "framed: unchanged": any(seen.framed.any() and not seen.soft for seen in views),
        "by shares: one colour belongs mostly to one token, which stands in the frame": any(
            seen.soft for seen in views
        ),
        "dark: not used": any(seen.greyed.any() for seen in views),
        "lines: cells": any(len(np.unique(seen.cells)) > 1 for seen in views),
    }
    return "; ".join([SCORE, *(sign for sign, there in signs.items() if there)]) + "."


def view_groups(plan: Assignment, grid: Grid) -> View:
    """Groups of several tokens are filled; tokens on their own, and those that stand for pruned ones, are framed."""
    group, size = plan.group[0].cpu(), plan.size[0].cpu()
    merged = size > 1
    colour = torch.where(merged, merged.cumsum(0) - 1, -1)
    framed = ~merged[group]
    if plan.keep is not None:
        framed[plan.keep[0].cpu()] = True
    return view(grid, group, colour[group], framed, words=f"{grid.tokens} tokens to {len(size)}")


def view_shares(plan: SoftAssignment, grid: Grid) -> View:
    """Tokens have the colour of the group they belong to most; destinations are framed, and lines show the tiles."""
    share = plan.share[0].cpu()
    tiles, tokens, groups = share.shape
    strongest = share.argmax(-1) + groups * torch.arange(tiles)[:, None]
    order = tile_order(grid, plan.tile, torch.device("cpu"))
    inside = order[: tiles * tokens]
    filled, cells = torch.full((2, grid.tokens), -1)
    filled[inside] = strongest.flatten()
    cells[inside] = torch.arange(tiles).repeat_interleave(tokens)
    framed = torch.zeros(grid.tokens, dtype=torch.bool)
    framed[plan.keep[0].cpu()] = True
    words = f"{grid.tokens} tokens to {plan.keep.shape[1]} by shares"
    return view(grid, cells, filled, framed, words=words)._replace(soft=True)


def view_pool(plan: Pooled, grid: Grid) -> View:
    """Cells of the coarser grid with their nearest tokens; other tokens only enter the average."""
    tokens = torch.arange(grid.tokens)
    nearest = keys_of(plan._replace(alpha=1.0), tokens.float()[:, None]).squeeze(1).long()
    shares = keys_of(plan._replace(alpha=0.0), torch.eye(grid.tokens))
    alpha = float(plan.alpha[0]) if isinstance(plan.alpha, Tensor) else plan.alpha
    taken = torch.isin(tokens, nearest)
    words = f"{grid} keys to {plan.coarse}, alpha {alpha:.3g}"
    none = torch.zeros_like(taken)
    return view(grid, shares.argmax(0), None, taken if alpha else none, ~taken if alpha == 1 else none, words)


def keys_of(plan: Plan, values: Tensor) -> Tensor:
    """The keys for values at the tokens: (N, C) -> (K, C)."""
    found: Any = plan.context(values[None])
    return found[0]


def view_selection(plan: Selected, grid: Grid) -> View:
    taken = torch.isin(torch.arange(grid.tokens), plan.tokens[0].cpu())
    return view(grid, taken, None, taken, ~taken, f"{grid.tokens} keys to {int(taken.sum())}")


def view_nothing(plan: Identity, grid: Grid) -> View:
    whole = torch.ones(grid.tokens, dtype=torch.bool)
    return view(grid, whole, None, whole, words=f"all {grid.tokens} tokens unchanged")


VIEWS: dict[type, Callable[[Any, Grid], View]] = {
    Assignment: view_groups,
    SoftAssignment: view_shares,
    Pooled: view_pool,
    Selected: view_selection,
    Identity: view_nothing,
}


def view(
    grid: Grid, cells: Tensor, filled: Tensor | None, framed: Tensor, greyed: Tensor | None = None, words: str = ""
) -> View:
    """(N,) each -> (H, W)."""
    filled = torch.full((grid.tokens,), -1) if filled is None else filled
    greyed = torch.zeros_like(framed) if greyed is None else greyed
    maps = [part.view(*grid).numpy() for part in (cells, filled, framed, greyed)]
    return View(maps[0], maps[1], maps[2], maps[3], words)


def draw_image(axes: "Axes", pixels: Tensor, grid: Grid, fade: float = 0.0) -> None:
    """The image with tokens as the unit of both axes, faded towards white."""
    found = np.asarray(to_picture(pixels).convert("RGB")) / 255
    axes.imshow(found + fade * (1 - found), extent=(0, grid.width, grid.height, 0), interpolation="nearest")


def draw_score(figure: "Figure", axes: "Axes", score: Tensor, grid: Grid) -> None:
    drawn = axes.imshow(score.view(*grid).cpu().numpy(), cmap="cividis", interpolation="nearest")
    figure.colorbar(drawn, ax=axes, shrink=0.7, pad=0.02).ax.tick_params(labelsize=7)


def draw_plan(axes: "Axes", pixels: Tensor, grid: Grid, seen: View, name: str) -> None:
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import hsv_to_rgb

    draw_image(axes, pixels, grid, fade=0.5)
    number = seen.filled[..., None]
    # hues a golden section apart, so that groups with near numbers differ most; two shades tell more of them apart
    hue, shade = (number * 0.618034) % 1.0, np.where(number % 2, 0.95, 0.7)
    colour = hsv_to_rgb(np.concatenate([hue, np.full_like(hue, 0.65), shade], -1))
    fill = np.concatenate([colour, np.where(number < 0, 0.0, 0.65)], -1)
    fill[seen.greyed] = (0.3, 0.3, 0.3, 0.75)
    axes.imshow(fill, extent=(0, grid.width, grid.height, 0), interpolation="nearest")
    wide = min(1.0, 16 / max(grid))  # lines of a fine grid are thin
    axes.add_collection(LineCollection(borders(seen.cells), colors="white", linewidths=wide))
    rows, columns = np.nonzero(seen.framed)
    corners = np.array([(0.15, 0.15), (0.85, 0.15), (0.85, 0.85), (0.15, 0.85)])
    squares = np.stack([columns, rows], -1)[:, None] + corners
    axes.add_collection(PolyCollection(squares, facecolors="none", edgecolors="black", linewidths=wide))
    axes.set_title(f"{textwrap.fill(name, 34)}\n{seen.words}")


def borders(cells: np.ndarray) -> list[Any]:
    """Lines between neighbours with different numbers: ((x, y), (x, y)) each."""
    down = [((x, y + 1), (x + 1, y + 1)) for y, x in np.argwhere(cells[1:] != cells[:-1])]
    right = [((x + 1, y), (x + 1, y + 1)) for y, x in np.argwhere(cells[:, 1:] != cells[:, :-1])]
    return down + right

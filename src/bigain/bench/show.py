"""`bigain show`: what operators do to the tokens of one image, at one site and one time step."""

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.backbones.denoiser import Denoiser
from bigain.backbones.family import family_of
from bigain.backbones.site import Site
from bigain.checks import whole
from bigain.classify.images import to_tensor
from bigain.compression import compress
from bigain.compression.attach import site_hooks
from bigain.pictures import to_picture
from bigain.plots.style import new_figure, styled
from bigain.tokens.grid import Grid
from bigain.tokens.plan import Assignment, Identity, Plan, Pooled, Selected
from bigain.tokens.scores import laplacian_l1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCORE = "Score: high is detail. Plans are those of the first noise draw, over the faded image"
NOTHING = "gated_merge(ratio=0)"  # attached, it tells of a site without changing it


class Seen(NamedTuple):
    """What came to a site in one forward pass, and what was planned there."""

    grid: Grid
    tokens: Tensor  # (B, N, C) of which scores are taken; shorter where the module's own input is meant and merged
    plan: Plan


class View(NamedTuple):
    """A plan as it is drawn over the image, token by token: (H, W) each."""

    cells: np.ndarray  # lines are drawn between different numbers
    filled: np.ndarray  # number of a colour, or -1
    framed: np.ndarray
    greyed: np.ndarray
    words: str


@styled
def show(
    image: Any,
    denoiser: Denoiser,
    operators: Sequence[str],
    *,
    label: str | int | None = None,
    t: int = 500,
    draws: int = 4,
    site: str | None = None,
    seed: int = 0,
) -> "Figure":
    """The image, its Laplacian score at a site (mean over noise draws), and each operator's plan for the first draw.

    Operators are attached where `bigain.compress` attaches them by default, one after the other; `site` is the name of
    an attention, the first that is compressed by default. Without a label the model is told nothing of the image.
    """
    check_request(denoiser, operators, t, draws)
    chosen = choose_site(denoiser, operators, site)
    pixels = to_tensor(image, denoiser.frame)
    noise = torch.randn((draws, *denoiser.latent_shape), generator=torch.Generator().manual_seed(seed))
    forward = noisy_pass(denoiser, pixels, label, t, noise)
    dense = look(denoiser, NOTHING, chosen, forward, everywhere=False)
    plans = [look(denoiser, text, chosen, forward, everywhere=True).plan for text in operators]
    views = [VIEWS[type(plan)](plan, dense.grid) for plan in plans]

    across = min(4, 2 + len(operators))
    down = -(-(2 + len(operators)) // across)
    told = "no label" if label is None else f"label {label}"
    words = f"{chosen.name} ({chosen.part}, level {chosen.level}), t = {t}, {told}, seed {seed}. {legend(views)}"
    figure = new_figure(2.6 * across, 0.9 + 2.65 * down, f"What happens to the tokens of {named(image)}", words)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    draw_image(panels[0], pixels, dense.grid)
    panels[0].set_title(f"as the model sees it\n{dense.grid} tokens")
    draw_score(figure, panels[1], laplacian_l1(dense.tokens, dense.grid).mean(0), dense.grid)
    panels[1].set_title(f"Laplacian score\nmean of n = {draws} noise draws")
    for axes, text, seen in zip(panels[2:], operators, views, strict=False):
        draw_plan(axes, pixels, dense.grid, seen, text)
    return figure


def legend(views: Sequence[View]) -> str:
    """What the signs mean that are there."""
    signs = {
        "one colour: merged into one token": any((seen.filled >= 0).any() for seen in views),
        "framed: stays as it is": any(seen.framed.any() for seen in views),
        "dark: not taken": any(seen.greyed.any() for seen in views),
        "lines: cells": any(len(np.unique(seen.cells)) > 1 for seen in views),
    }
    return "; ".join([SCORE, *(sign for sign, there in signs.items() if there)]) + "."


def check_request(denoiser: Denoiser, operators: Sequence[str], t: int, draws: int) -> None:
    if isinstance(operators, str) or not operators:
        raise ValueError(f"operators is a list of one operator or more; got {operators!r}")
    steps = denoiser.schedule.timesteps
    if whole(t) is None or not 0 <= t < steps:
        raise ValueError(f"t is a time step from 0 (an image) to {steps - 1} (noise); got {t!r}")
    if whole(draws) is None or draws < 1:
        raise ValueError(f"draws is a number of noise draws from 1; got {draws!r}")


def choose_site(denoiser: Denoiser, operators: Sequence[str], name: str | None) -> Site:
    """The site of that name, or the first that is compressed by default; all operators must act there."""
    network = denoiser.network
    if site_hooks(network):
        raise ValueError("the model is compressed already; call bigain.restore(model): operators are attached here")
    sites = {site.name: site for site in family_of(network).sites(network)}
    if name is not None and name not in sites:
        raise ValueError(f"no site {name!r} in {type(network).__name__}; it has:\n" + listed(sites))
    for text in operators:
        with compress(network, acting(text)):
            acted = [hook.site.name for hook in site_hooks(network)]
        name = name or acted[0]
        if name not in acted:
            raise ValueError(f"{text} does not compress {name}; by default it compresses:\n" + listed(acted))
    return sites[str(name)]


def acting(operator: str) -> str:
    """An operator that can be attached: of "none" one that changes nothing."""
    return NOTHING if operator.strip() == "none" else operator


def listed(names: Any) -> str:
    return "\n".join(f"  {name}" for name in names)


def noisy_pass(
    denoiser: Denoiser, pixels: Tensor, label: str | int | None, t: int, noise: Tensor
) -> Callable[[], Tensor]:
    """A forward pass for the image under each noise, to be run whenever it is called: (c, s, s), (B, C, H, W)."""
    latents = denoiser.encode(pixels[None]).expand(noise.shape)
    noise = noise.to(latents.device)
    times = torch.full((len(noise),), t, device=latents.device)
    if label is None:
        condition = denoiser.unconditional(len(noise))
    else:
        condition = denoiser.conditions([label]).take(torch.zeros_like(times))
    return lambda: denoiser.error(latents, condition, times, noise)


def look(denoiser: Denoiser, text: str, site: Site, forward: Callable[[], Any], *, everywhere: bool) -> Seen:
    """One forward pass with an operator, everywhere or at one site, seen from that site."""
    network = denoiser.network
    found: list[Seen] = []
    with compress(network, acting(text), where=None if everywhere else lambda other: other.name == site.name):
        hook = next(hook for hook in site_hooks(network) if hook.site.name == site.name)

        def note(module: Any, args: Any, kwargs: Any) -> None:
            block = hook.probe.current()
            own = args[0] if args else kwargs["hidden_states"]
            if block is not None:
                tokens = block.x if hook.probe.family.metric == "block" else own
                found.append(Seen(block.grid, tokens, hook.local.plan))

        noting = site.module.register_forward_pre_hook(note, with_kwargs=True)  # after the operator's own hook
        try:
            forward()
        finally:
            noting.remove()
    return found[0]


def named(image: Any) -> str:
    return Path(image).name if isinstance(image, str | Path) else "an image"


def view_groups(plan: Assignment, grid: Grid) -> View:
    """Groups of several tokens are filled; tokens on their own, and those that stand for pruned ones, are framed."""
    group, size = plan.group[0].cpu(), plan.size[0].cpu()
    merged = size > 1
    colour = torch.where(merged, merged.cumsum(0) - 1, -1)
    framed = ~merged[group]
    if plan.keep is not None:
        framed[plan.keep[0].cpu()] = True
    return view(grid, group, colour[group], framed, words=f"{grid.tokens} tokens to {len(size)}")


def view_pool(plan: Pooled, grid: Grid) -> View:
    """Cells of the coarser grid, with the token of each that is nearest; of the others only the average takes any."""
    tokens = torch.arange(grid.tokens)
    nearest = keys_of(plan._replace(alpha=1.0), tokens.float()[:, None]).squeeze(1).long()
    shares = keys_of(plan._replace(alpha=0.0), torch.eye(grid.tokens))
    alpha = float(plan.alpha[0]) if isinstance(plan.alpha, Tensor) else plan.alpha
    taken = torch.isin(tokens, nearest)
    words = f"{grid} keys to {plan.coarse}, alpha {alpha:.3g}"
    none = torch.zeros_like(taken)
    return view(grid, shares.argmax(0), None, taken if alpha else none, ~taken if alpha == 1 else none, words)


def keys_of(plan: Plan, values: Tensor) -> Tensor:
    """What keys are made of values at the tokens: (N, C) -> (K, C)."""
    found: Any = plan.context(values[None])
    return found[0]


def view_selection(plan: Selected, grid: Grid) -> View:
    taken = torch.isin(torch.arange(grid.tokens), plan.tokens[0].cpu())
    return view(grid, taken, None, taken, ~taken, f"{grid.tokens} keys to {int(taken.sum())}")


def view_nothing(plan: Identity, grid: Grid) -> View:
    whole = torch.ones(grid.tokens, dtype=torch.bool)
    return view(grid, whole, None, whole, words=f"all {grid.tokens} tokens stay")


VIEWS: dict[type, Callable[[Any, Grid], View]] = {
    Assignment: view_groups,
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

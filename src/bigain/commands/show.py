"""`bigain show`: what operators do to the tokens of one image, at one site and one timestep."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from bigain.checks import whole
from bigain.classify.images import to_tensor
from bigain.compression import compress, sites
from bigain.compression.attach import site_hooks
from bigain.compression.attachment import SiteEvent
from bigain.compression.status import Status
from bigain.denoisers.base import Denoiser
from bigain.models.family import family_of
from bigain.models.site import Site, Where
from bigain.plots.style import new_figure, styled
from bigain.plots.tokens import VIEWS, draw_image, draw_plan, draw_score, legend
from bigain.tokens.grid import Grid
from bigain.tokens.scores import laplacian_l1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTHING = "gated_merge(ratio=0)"  # attached, it lets a site be observed without changing it


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

    Operators are attached to the default sites of `bigain.compress`, one after the other. `site` is the name of an
    attention, by default the first compressed one. Without a label the model runs unconditionally.
    """
    check_request(denoiser, operators, t, draws)
    chosen = choose_site(denoiser, operators, site)
    pixels = to_tensor(image, denoiser.image_spec)
    noise = torch.randn((draws, *denoiser.latent_shape), generator=torch.Generator().manual_seed(seed))
    forward = noisy_pass(denoiser, pixels, label, t, noise)
    dense = look(denoiser, NOTHING, chosen, forward, everywhere=False)
    plans = [look(denoiser, text, chosen, forward, everywhere=True).plan for text in operators]
    views = [VIEWS[type(plan)](plan, dense.grid) for plan in plans]

    across = min(4, 2 + len(operators))
    down = -(-(2 + len(operators)) // across)
    condition = "no label" if label is None else f"label {label}"
    place = f"{chosen.name} ({chosen.part}, downsample {chosen.downsample})"
    words = f"{place}, t = {t}, {condition}, seed {seed}. {legend(views)}"
    figure = new_figure(2.6 * across, 0.9 + 2.65 * down, f"What operators do to the tokens of {named(image)}", words)
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


def check_request(denoiser: Denoiser, operators: Sequence[str], t: int, draws: int) -> None:
    if isinstance(operators, str) or not operators:
        raise ValueError(f"operators must be a list of at least one operator, got {operators!r}")
    steps = denoiser.schedule.num_train_timesteps
    if whole(t) is None or not 0 <= t < steps:
        raise ValueError(f"t must be a timestep from 0 (an image) to {steps - 1} (noise), got {t!r}")
    if whole(draws) is None or draws < 1:
        raise ValueError(f"draws must be an int of at least 1, got {draws!r}")


def choose_site(denoiser: Denoiser, operators: Sequence[str], name: str | None) -> Site:
    """The site of that name, or the first that is compressed by default; all operators must act there."""
    network = denoiser.network
    if site_hooks(network):
        raise ValueError("the model is already compressed; call bigain.restore(model) first")
    everywhere = {site.name: site for site in family_of(network).sites(network)}
    if name is not None and name not in everywhere:
        raise ValueError(f"no site {name!r} in {type(network).__name__}. Available:\n" + listed(everywhere))
    default = [site.name for site in sites(network)]
    name = name or default[0]
    if name not in default:
        raise ValueError(f"{operators[0]} does not compress {name}; by default it compresses:\n" + listed(default))
    return everywhere[name]


def acting(operator: str) -> str:
    """An operator that can be attached: for "none" one that changes nothing."""
    return NOTHING if operator.strip() == "none" else operator


def listed(names: Any) -> str:
    return "\n".join(f"  {name}" for name in names)


def noisy_pass(
    denoiser: Denoiser, pixels: Tensor, label: str | int | None, t: int, noise: Tensor
) -> Callable[[], Tensor]:
    """A function that runs a forward pass for the image with each noise: (c, s, s), (B, C, H, W)."""
    latents = denoiser.encode(pixels[None]).expand(noise.shape)
    noise = noise.to(latents.device)
    times = torch.full((len(noise),), t, device=latents.device)
    if label is None:
        condition = denoiser.unconditional(len(noise))
    else:
        condition = denoiser.conditions([label]).take(torch.zeros_like(times))
    return lambda: denoiser.error(latents, condition, times, noise)


class Look(NamedTuple):
    """What was observed at one site in one forward pass, and what the pass cost at all compressed sites."""

    grid: Grid
    tokens: Tensor  # (B, N, C) that the plan is made from
    plan: Any
    status: Status


def look(denoiser: Denoiser, text: str, site: Site, forward: Callable[[], Any], *, everywhere: bool) -> Look:
    """One forward pass with an operator, everywhere or at one site, as observed at that site."""
    events: list[SiteEvent] = []

    def observe(event: SiteEvent) -> None:
        if event.step == "merged" and event.site.name == site.name:
            events.append(event)

    where = None if everywhere else Where(only=lambda other: other.name == site.name, module=site.kind)
    with compress(denoiser, acting(text), where=where) as handle, handle.observed(observe):
        forward()
        status = handle.status()
    return Look(events[0].grid, events[0].tokens, events[0].plan, status)


def named(image: Any) -> str:
    return Path(image).name if isinstance(image, str | Path) else "an image"

"""From which size on an operator saves more than it costs, at one attention."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from bigain.backbones.architectures import meta_copy
from bigain.backbones.site import Site, native_size
from bigain.bench.ratios import FEWEST_ROUNDS
from bigain.bench.stopwatch import seconds_of
from bigain.compression import compress
from bigain.compression.attach import site_hooks
from bigain.compression.status import channels
from bigain.operators.base import Call, Operator
from bigain.tokens.grid import Grid

SIDES = (16, 24, 32, 48, 64, 96, 128)


def acted_sites(model: nn.Module, options: dict[str, Any]) -> list[Site]:
    """The attentions that operators act on, whether one is attached or not."""
    other = meta_copy(model)
    with compress(other, "todo(factor=2)", where=options.get("where")):
        sites = [hook.site for hook in site_hooks(other)]
    return [replace(site, module=model.get_submodule(site.name)) for site in sites]


def grid_side(site: Site, model: nn.Module, latent: tuple[int, int] | None) -> int:
    """Side of a site's grid, were it a square, for latents of this size."""
    native = native_size(model)
    height, width = latent or native
    return round((site.tokens * height * width / (native[0] * native[1])) ** 0.5)


def pays_from(operator: Operator, site: Site, now: int, batch: int) -> int | None:
    """The side of the smallest larger grid where the attention is faster with the operator than without, or None.

    Faster is what is so in each of six rounds, which is the sign test; the first round that is not ends a size.
    """
    for side in (side for side in SIDES if side > now):
        if all(compressed < dense for dense, compressed in times_at(side, operator, site, batch)):
            return side
    return None


def times_at(side: int, operator: Operator, site: Site, batch: int) -> Iterator[tuple[float, float]]:
    """Seconds without and with the operator in each of the interleaved rounds, after one to warm up."""
    module: Any = site.module
    weight = next(module.parameters())
    x = torch.randn(batch, side * side, channels(site), device=weight.device, dtype=weight.dtype)
    call = Call(Grid(side, side), draw_key=torch.zeros(1, dtype=torch.int64, device=weight.device))
    for number in range(FEWEST_ROUNDS + 1):
        dense = seconds_of(lambda: module(x), weight.device)
        compressed = seconds_of(lambda: compressed_attention(module, operator, x, call), weight.device)
        if number:
            yield dense, compressed


def compressed_attention(module: Any, operator: Operator, x: Tensor, call: Call) -> Tensor:
    plan = operator.plan(x, call)
    return plan.restore(module(plan.queries(x), encoder_hidden_states=plan.context(x)))

"""The grid size from which an operator saves time at one attention."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bigain.bench.ratios import FEWEST_ROUNDS
from bigain.bench.stopwatch import seconds_of
from bigain.models.costs import site_width
from bigain.models.family import native_size
from bigain.models.site import Site
from bigain.operators.base import Call, Operator
from bigain.tokens.grid import Grid

SIDES = (16, 24, 32, 48, 64, 96, 128)


def grid_side(site: Site, model: nn.Module, latent: tuple[int, int] | None) -> int:
    """Side of a square grid with as many tokens as the site, for latents of this size."""
    native = native_size(model)
    height, width = latent or native
    return round((site.tokens * height * width / (native[0] * native[1])) ** 0.5)


def break_even_side(operator: Operator, site: Site, now: int, batch: int) -> int | None:
    """The side of the smallest larger grid where the attention is faster with the operator than without, or None.

    It counts as faster if it is so in each of six rounds (a sign test); the first slower round ends a size.
    """
    for side in (side for side in SIDES if side > now):
        if all(compressed < dense for dense, compressed in times_at(side, operator, site, batch)):
            return side
    return None


def times_at(side: int, operator: Operator, site: Site, batch: int) -> Iterator[tuple[float, float]]:
    """Seconds without and with the operator in each of the interleaved rounds, after one to warm up."""
    module: Any = site.module
    weight = next(module.parameters())
    x = torch.randn(batch, side * side, site_width(site), device=weight.device, dtype=weight.dtype)
    call = Call(Grid(side, side), draw_key=torch.zeros(1, dtype=torch.int64, device=weight.device))
    for number in range(FEWEST_ROUNDS + 1):
        dense = seconds_of(lambda: module(x), weight.device)
        compressed = seconds_of(lambda: compressed_attention(module, operator, x, call), weight.device)
        if number:
            yield dense, compressed


def compressed_attention(module: Any, operator: Operator, x: Tensor, call: Call) -> Tensor:
    plan = operator.plan(x, call)
    return plan.unmerge(module(plan.queries(x), encoder_hidden_states=plan.context(x)))

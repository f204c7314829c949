"""The grid size from which an operator saves time at one site."""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, NamedTuple

import torch
from torch import nn

from bigain.bench.ratios import FEWEST_ROUNDS
from bigain.bench.stopwatch import wait
from bigain.compression import compress
from bigain.models.architectures import example_inputs
from bigain.models.family import Inputs, native_size
from bigain.models.site import Site, Where
from bigain.operators.base import Operator

SIDES = (16, 24, 32, 48, 64, 96, 128)


class Place(NamedTuple):
    """A site of an uncompressed model, and how many samples and tokens of text it gets."""

    model: nn.Module
    site: Site
    batch: int
    text_tokens: int


class StopPass(Exception):  # noqa: N818 - no error, like StopIteration
    """The site has run; the rest of the pass is not needed."""


def grid_side(site: Site, model: nn.Module, latent: tuple[int, int] | None) -> int:
    """Side of a square grid with as many tokens as the site, for latents of this size."""
    native = native_size(model)
    height, width = latent or native
    return round((site.tokens * height * width / (native[0] * native[1])) ** 0.5)


def break_even_side(operator: Operator, place: Place, now: int) -> int | None:
    """The side of the smallest larger grid where the site is faster with the operator than without, or None.

    It counts as faster if it is so in each of six rounds (a sign test); the first slower round ends a size.
    """
    for side in (side for side in SIDES if side > now):
        inputs = inputs_at(side, place)
        if inputs is None:
            return None
        with closing(times_of(inputs, operator, place)) as times:  # the first slower round ends it
            if all(compressed < dense for dense, compressed in times):
                return side
    return None


def inputs_at(side: int, place: Place) -> Inputs | None:
    """Arguments of the model that give the site a grid of this side; None where its positions do not suffice."""
    height, width = native_size(place.model)
    latents_a_token = round((height * width / place.site.tokens) ** 0.5)
    latent = (side * latents_a_token, side * latents_a_token)
    try:
        return example_inputs(place.model, latent, place.batch, place.text_tokens)
    except ValueError:
        return None


def times_of(inputs: Inputs, operator: Operator, place: Place) -> Generator[tuple[float, float]]:
    """Seconds of the site without and with the operator in each of the interleaved rounds, after one to warm up.

    It is timed inside a pass of the model, where it gets its text and its positions.
    """
    model, name = place.model, place.site.name
    device = next(model.parameters()).device
    where = Where(module=place.site.kind, only=lambda site: site.name == name)

    def seconds() -> float:
        return seconds_inside(model.get_submodule(name), lambda: model(*inputs.args, **inputs.kwargs), device)

    with compress(model, operator, where=where) as handle:
        for number in range(FEWEST_ROUNDS + 1):
            with handle.paused():
                dense = seconds()
            compressed = seconds()
            if number:
                yield dense, compressed


def seconds_inside(module: nn.Module, call: Callable[[], Any], device: torch.device) -> float:
    """Seconds of a module, with all hooks on it, in a call that ends as soon as it has run."""
    times: list[float] = []

    def begin(*_: Any) -> None:
        wait(device)
        times.append(time.perf_counter())

    def end(*_: Any) -> None:
        wait(device)
        times.append(time.perf_counter())
        raise StopPass

    hooks = module.register_forward_pre_hook(begin, prepend=True), module.register_forward_hook(end)
    try:
        call()
    except StopPass:
        return times[1] - times[0]
    finally:
        for hook in hooks:
            hook.remove()
    raise RuntimeError(f"a {type(module).__name__} to be timed did not run")

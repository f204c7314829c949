"""Where the time of a compressed step goes: plan, merge, attention, unmerge."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from bigain.compression import Handle
from bigain.compression.attachment import SiteEvent

PARTS = ("plan", "merge", "attention", "unmerge")


def wait(device: torch.device) -> None:
    """Wait until the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], Any], device: torch.device) -> float:
    wait(device)
    started = time.perf_counter()
    call()
    wait(device)
    return time.perf_counter() - started


class Stopwatch:
    """Seconds spent in each part since the last `reset`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.started = 0.0

    def reset(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def start(self) -> None:
        wait(self.device)
        self.started = time.perf_counter()

    def stop(self, part: str) -> None:
        wait(self.device)
        self.seconds[part] += time.perf_counter() - self.started

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.start()
            result = function(*args, **kwargs)
            self.stop(part)
            return result

        return run


STEPS = {"planned": "plan", "merged": "merge", "computed": "attention", "unmerged": "unmerge"}


@contextmanager
def watched(handle: Handle, watch: Stopwatch) -> Iterator[None]:
    """Time the parts of a handle's sites inside the `with` block."""

    def observe(event: SiteEvent) -> None:
        if event.step in STEPS:
            watch.stop(STEPS[event.step])
        watch.start()

    with handle.observed(observe):
        yield


@contextmanager
def watched_modules(modules: list[nn.Module], watch: Stopwatch) -> Iterator[None]:
    """Time whole attention modules of an uncompressed model inside the `with` block."""
    hooks = []
    for module in modules:
        hooks.append(module.register_forward_pre_hook(lambda *_: watch.start()))
        hooks.append(module.register_forward_hook(lambda *_: watch.stop("attention"), prepend=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def watched_tomesd(watch: Stopwatch) -> Iterator[None]:
    """Time the parts of tomesd inside the `with` block."""
    from tomesd import patch

    compute = patch.compute_merge

    def timed(*args: Any) -> tuple[Any, ...]:
        merge, *others, unmerge, keep_cross, keep_mlp = watch.timed("plan", compute)(*args)
        return (watch.timed("merge", merge), *others, watch.timed("unmerge", unmerge), keep_cross, keep_mlp)

    patch.compute_merge = timed
    try:
        yield
    finally:
        patch.compute_merge = compute

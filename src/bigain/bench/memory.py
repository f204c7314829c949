"""How much memory a call takes."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


def peak_bytes(call: Callable[[], Any], device: torch.device) -> int:
    """Peak memory allocated during a call, beyond what was allocated before."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return int(torch.cuda.max_memory_allocated(device) - before)
    with silent(), torch.profiler.profile(profile_memory=True) as profile:
        call()
    live = peak = 0
    events: Any = profile.profiler
    for event in events.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


@contextmanager
def silent() -> Iterator[None]:
    """Torch's profiler writes lines of its own to standard error, past Python."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)

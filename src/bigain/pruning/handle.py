"""The handle of a pruned model, with the conventions of `compress`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from bigain.compression.attach import introduce
from bigain.models.hooks import sweep
from bigain.models.probe import LOCK
from bigain.models.stand_in import Attached
from bigain.pruning.methods import method_spec


class Handle:
    """What `prune` returns: use it as a context manager, or call `remove()` when done."""

    def __init__(self, model: nn.Module, attached: Attached, pruned: Any, reader: Any) -> None:
        self._model = model
        self._attached = attached
        self._reader = reader
        self.pruned = pruned  # fits other models of the same configuration: `bigain.prune(model, handle.pruned)`
        introduce(model)

    def __enter__(self) -> "Handle":
        if self._attached.removed:
            raise RuntimeError("this handle was removed; call prune again, or use handle.paused() next time")
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Make the model what it was, to the last bit. Calling it again does nothing."""
        with LOCK:
            self._attached.switch(on=False)
            self._attached.removed = True
            self._attached.probe.when_idle(lambda: tidy(self._model))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run the whole model inside the `with` block."""
        before = self._attached.active
        self._attached.switch(on=False)
        try:
            yield
        finally:
            self._attached.switch(on=before)

    @contextmanager
    def at_stage(self, number: int) -> Iterator[None]:
        """Inside the `with` block, take one stage for all rows, for example to count FLOPs on the meta device."""
        if self.pruned.method.sequential:
            raise ValueError("gates have steps and no stages; their FLOPs are in handle.status()")
        stages = len(self.pruned.stages.stages)
        if not 0 <= number < stages:
            raise ValueError(f"stage must be from 0 to {stages - 1}, got {number!r}")
        before, self._reader.fixed = self._reader.fixed, number
        try:
            yield
        finally:
            self._reader.fixed = before

    def status(self) -> Any:
        """One row a site: what it keeps in each stage, and FLOPs before and after; printed, a table."""
        return self.pruned.status(self._model)

    def __repr__(self) -> str:
        state = "removed" if self._attached.removed else ("on" if self._attached.active else "paused")
        sites = len(self.pruned)
        return f"<{method_spec(self.pruned.method)} on {sites} sites of {type(self._model).__name__}, {state}>"


def tidy(model: nn.Module) -> None:
    """Take off hooks that nothing needs."""
    sweep(model)
    introduce(model)

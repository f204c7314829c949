"""The handle of what `compress` attached."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import NamedTuple

from torch import nn

from bigain.compression.attach import detach
from bigain.compression.attachment import Attachment, Observer
from bigain.compression.hooks import SiteHook
from bigain.compression.setting import Compression
from bigain.compression.status import SiteStatus, Status, site_status
from bigain.models.probe import LOCK
from bigain.operators.base import Operator, spec


class Attached(NamedTuple):
    """One operator on its sites."""

    attachment: Attachment
    hooks: list[SiteHook]


class Handle:
    """What `compress` returns: use it as a context manager, or call `remove()` when done."""

    def __init__(self, model: nn.Module, parts: list[Attached]) -> None:
        self._model = model
        self._parts = parts
        self._attachment, self._hooks = parts[0]

    @property
    def compression(self) -> Compression:
        """The operator with its sites and options; those of a setting are `compressions`."""
        if len(self._parts) > 1:
            raise AttributeError(f"this setting has {len(self._parts)} operators; see handle.compressions")
        return self._attachment.compression

    @property
    def compressions(self) -> tuple[Compression, ...]:
        """All operators with their sites and options."""
        return tuple(part.attachment.compression for part in self._parts)

    @property
    def operator(self) -> Operator:
        """The operator, where there is one."""
        operator: Operator = self.compression.operator
        return operator

    def __enter__(self) -> "Handle":
        if self._attachment.removed:
            raise RuntimeError("this handle was removed; call compress again, or use handle.paused() next time")
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove what this call attached; other operators stay. Calling it again does nothing."""
        with LOCK:
            detach(self._model, [part.attachment for part in self._parts])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run the model uncompressed inside the `with` block."""
        before = [(part.attachment, part.attachment.active) for part in self._parts]
        for attachment, _ in before:
            attachment.switch(on=False)
        try:
            yield
        finally:
            for attachment, active in before:
                attachment.switch(on=active)

    @contextmanager
    def observed(self, observer: Observer) -> Iterator[None]:
        """Inside the `with` block, call `observer` with a `SiteEvent` at each step of each site; eager mode only."""
        with ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(part.attachment.observed(observer))
            yield

    def reset(self, start: int = 0) -> None:
        """Restart the random patterns, as if just attached, or as after `start` passes.

        Passes are counted per model, so all stochastic operators on it restart.
        """
        self._attachment.probe.count.fill_(start)

    def status(self) -> Status:
        """One row per site: tokens and FLOPs before and after, for one sample of the last call in which it acted."""
        rows: list[SiteStatus] = []
        for attachment, hooks in self._parts:
            for hook in hooks:
                site = replace(hook.site, module=self._model.get_submodule(hook.site.name))
                trace = hook.traces.get(attachment.key)
                rows.append(site_status(site, attachment.operator, trace)._replace(when=attachment.when))
        return Status(rows)

    def __repr__(self) -> str:
        state = "removed" if self._attachment.removed else ("on" if self._attachment.active else "paused")
        operators = ", ".join(dict.fromkeys(spec(part.attachment.operator) for part in self._parts))
        count = len({hook.site.name for part in self._parts for hook in part.hooks})
        return f"<{operators} on {count} sites of {type(self._model).__name__}, {state}>"

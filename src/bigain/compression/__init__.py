"""Attach an operator to a model, and take it off again without a trace."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

from bigain.compression.attach import all_site_hooks, attach, detach
from bigain.compression.attachment import Attachment, Observer
from bigain.compression.hooks import SiteHook
from bigain.compression.setting import Compression, Groups, Sites, as_where
from bigain.compression.status import SiteStatus, Status, site_status
from bigain.models.family import family_of, find_model
from bigain.models.probe import LOCK, Probe, probe_of
from bigain.models.site import Site, choose
from bigain.operators.base import Nothing, Operator, spec

__all__ = ["Compression", "Handle", "compress", "restore", "sites"]


class Handle:
    """What `compress` returns: use it as a context manager, or call `remove()` when done."""

    def __init__(self, model: nn.Module, attachment: Attachment, hooks: list[SiteHook]) -> None:
        self._model = model
        self._attachment = attachment
        self._hooks = hooks

    @property
    def compression(self) -> Compression:
        """What is attached."""
        return self._attachment.compression

    @property
    def operator(self) -> Operator:
        return self._attachment.operator

    def __enter__(self) -> "Handle":
        if self._attachment.removed:
            raise RuntimeError("this handle was removed; call compress again, or use handle.paused() next time")
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take this operator off; what else is attached stays. Calling it again does nothing."""
        with LOCK:
            detach(self._model, [self._attachment])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The uncompressed model for a while."""
        before = self._attachment.active
        self._attachment.switch(on=False)
        try:
            yield
        finally:
            self._attachment.switch(on=before)

    @contextmanager
    def observed(self, observer: Observer) -> Iterator[None]:
        """For a while, call `observer` with a `SiteEvent` at each step of each compressed site, in eager mode."""
        before = self._attachment.observers
        self._attachment.observers = (*before, observer)
        try:
            yield
        finally:
            self._attachment.observers = before

    def reset(self, start: int = 0) -> None:
        """Restart the random patterns, as if just attached, or as if `start` passes had gone before.

        Passes are counted per model, so all stochastic operators on it restart.
        """
        self._attachment.probe.count.fill_(start)

    def status(self) -> Status:
        """One row for each site: tokens and FLOPs before and after, for one sample of the last call."""
        rows: list[SiteStatus] = []
        for hook in self._hooks:
            site = replace(hook.site, module=self._model.get_submodule(hook.site.name))
            rows.append(site_status(site, self.operator, hook.trace))
        return Status(rows)

    def __repr__(self) -> str:
        state = "removed" if self._attachment.removed else ("on" if self._attachment.active else "paused")
        return f"<{spec(self.operator)} on {len(self._hooks)} sites of {type(self._model).__name__}, {state}>"


def compress(
    model_or_pipeline: Any,
    operator: Operator | Compression | str,
    *,
    where: Sites = None,
    reuse: Literal["stage"] | None = None,
    groups: Groups = None,
    correct: bool = False,
) -> Handle:
    """Compress a diffusers model, or the U-Net or transformer of a pipeline, with an operator, or with "none".

    `where` chooses the sites (by default the self-attentions of the finest grid of a U-Net, of the first 12 of 28
    blocks of a DiT): a `Where`, text such as `part="down"`, or a function of a `Site`, asked about self-attentions.
    `reuse="stage"` plans once in each stage of a forward pass. `groups=g` lets g consecutive rows of a batch share one
    plan, `groups="cfg"` rows i and i + B/2, which are the two halves of classifier-free guidance, and
    `groups="input"` rows with the same noisy input: the classes of a trial, the two halves in `bigain generate` (other
    callers say so with `models.rows.same_input`; rows of which nothing is said have each their own plan).
    `correct=True` takes the error that compression makes on the mean row of a group out of all its rows: next to all
    decisions of a classifier stay as they were, for one dense and one compressed row more a group. All of it together
    is one object, `Compression(operator, where, reuse, groups, correct)`, which may be given instead.
    """
    model = find_model(model_or_pipeline)
    family = family_of(model)
    compression = as_compression(operator, where, reuse, groups, correct)
    chosen = sites(model, compression.where)
    if isinstance(compression.operator, Nothing):  # a handle like any other, of a probe that is put on no model
        attachment = Attachment(compression, Probe(model, family), "")
        attachment.switch(on=True)
        return Handle(model, attachment, [])
    check_kinds(compression.operator, chosen)
    with LOCK:
        check_free(model, chosen)
        known = probe_of(model)
        probe = known or Probe(model, family)
        keys = {attachment.key for hook in all_site_hooks(model) for attachment in hook.attachments}
        attachment = Attachment(compression, probe, next(str(n) for n in range(len(keys) + 1) if str(n) not in keys))
        everywhere = family.sites(model)
        hooks = attach(model, everywhere, chosen, attachment)
        if known is None:
            probe.attach(model, everywhere)
        probe.attached_in.add(threading.get_ident())
        probe.counting = probe.counting or compression.operator.stochastic
        probe.shares_inputs = probe.shares_inputs or compression.groups == "input"
        probe.reads_text = probe.reads_text or (compression.correct and any(site.kind == "cross" for site in chosen))
        attachment.switch(on=True)
    forget_compiled()
    return Handle(model, attachment, hooks)


def as_compression(
    operator: Operator | Compression | str, where: Sites, reuse: Any, groups: Any, correct: Any
) -> Compression:
    if not isinstance(operator, Compression):
        return Compression(operator, where, reuse, groups, correct)
    options = {"where": where, "reuse": reuse, "groups": groups, "correct": correct or None}
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise TypeError(f"{given[0]}= must be part of the Compression, got both; use dataclasses.replace to change it")
    return operator


def sites(model_or_pipeline: Any, where: Sites = None) -> list[Site]:
    """The sites that `compress` would act on, in the order of the forward pass; nothing is attached."""
    model = find_model(model_or_pipeline)
    family = family_of(model)
    everywhere = family.sites(model)
    return choose(everywhere, as_where(where), family.default(everywhere), type(model).__name__)


def restore(model_or_pipeline: Any) -> None:
    """Remove everything that `compress` attached to a model or pipeline."""
    model = find_model(model_or_pipeline)
    with LOCK:
        detach(model, {attachment for hook in all_site_hooks(model) for attachment in hook.attachments})


def check_kinds(operator: Operator, chosen: list[Site]) -> None:
    """Key-value operators leave the queries alone, so they have nothing to do outside self-attention."""
    others = [site.name for site in chosen if site.kind != "self"]
    if others and not operator.reduces_queries:
        raise ValueError(f"{spec(operator)} acts on the keys of self-attention; it cannot act on {others[0]}")


def check_free(model: nn.Module, chosen: list[Site]) -> None:
    taken = {hook.site.name: spec(hook.attachment.operator) for hook in all_site_hooks(model) if hook.attachment}
    clash = [f"  {site.name}: {taken[site.name]}" for site in chosen if site.name in taken]
    if clash:
        raise ValueError(
            "these sites are already compressed; remove that handle, call bigain.restore(model), or choose other "
            "sites with where=:\n" + "\n".join(clash)
        )


def forget_compiled() -> None:
    """A graph compiled before, of the model or of a part of it, would run without the new hooks: Dynamo does not look
    at hooks again. Nothing tells which graphs hold which modules, so all are made anew when they next run.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()

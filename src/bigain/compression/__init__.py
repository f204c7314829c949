"""Attach an operator to a model, and remove it without a trace."""

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
from bigain.compression.joint import check_projections
from bigain.compression.setting import Compression, Groups, Sites, as_where
from bigain.compression.status import SiteStatus, Status, site_status
from bigain.models.family import family_of, find_model
from bigain.models.probe import LOCK, Probe, probe_of
from bigain.models.site import Site, choose
from bigain.models.stand_in import keeps_steps, remove_stand_ins
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
        """The operator with its sites and options."""
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
        """Remove this operator; others stay attached. Calling it again does nothing."""
        with LOCK:
            detach(self._model, [self._attachment])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run the model uncompressed inside the `with` block."""
        before = self._attachment.active
        self._attachment.switch(on=False)
        try:
            yield
        finally:
            self._attachment.switch(on=before)

    @contextmanager
    def observed(self, observer: Observer) -> Iterator[None]:
        """Inside the `with` block, call `observer` with a `SiteEvent` at each step of each site; eager mode only."""
        before = self._attachment.observers
        self._attachment.observers = (*before, observer)
        try:
            yield
        finally:
            self._attachment.observers = before

    def reset(self, start: int = 0) -> None:
        """Restart the random patterns, as if just attached, or as after `start` passes.

        Passes are counted per model, so all stochastic operators on it restart.
        """
        self._attachment.probe.count.fill_(start)

    def status(self) -> Status:
        """One row per site: tokens and FLOPs before and after, for one sample of the last call."""
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
    """Compress a diffusers model, or the U-Net or transformer of a pipeline, with an operator.

    `operator` is an instance, a string such as "gated_merge(ratio=0.7)", or "none". A `Compression` holds all five
    arguments and may be passed instead.

    `where` chooses the sites: a `Where`, a string such as "part='down'", or a function that filters self-attentions
    by `Site`. The default is the self-attentions of the finest grid of a U-Net, or of the first 12 of 28 blocks of a
    transformer; joint attention counts as self-attention of the image.

    `reuse="stage"` plans once per stage of a forward pass, not once per block.

    `groups` says which rows of a batch share a plan. An int g means g consecutive rows. "cfg" means rows i and
    i + B/2, the two halves of classifier-free guidance. "input" means rows with the same noisy input: the classes of a
    trial in `DiffusionClassifier`, the two halves of guidance in `bigain.generate`. Other callers declare such rows
    with `models.rows.same_input`; undeclared rows do not share.

    `correct=True` removes the error that compression makes on the mean row of a group from all of its rows. A
    classifier then keeps nearly all of its decisions, at the cost of one dense and one compressed row per group.
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
    check_keys(compression.operator, chosen)
    if keeps_steps(model) and (compression.operator.reduces_queries or compression.correct):
        raise ValueError(
            "blocks of this model give their output of the step before, which does not fit other merged tokens; remove "
            "the gates, or use a key-value operator without correct=True"
        )
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
        raise TypeError(
            f"{given[0]} must be set in the Compression, got both; use dataclasses.replace(compression, {given[0]}=…)"
        )
    return operator


def sites(model_or_pipeline: Any, where: Sites = None) -> list[Site]:
    """The sites that `compress` would act on, in the order of the forward pass; nothing is attached."""
    model = find_model(model_or_pipeline)
    family = family_of(model)
    everywhere = family.sites(model)
    return choose(everywhere, as_where(where), family.default(everywhere), type(model).__name__)


def restore(model_or_pipeline: Any) -> None:
    """Remove everything that `compress` and `prune` attached to a model or pipeline."""
    model = find_model(model_or_pipeline)
    with LOCK:
        remove_stand_ins(model)
        detach(model, {attachment for hook in all_site_hooks(model) for attachment in hook.attachments})


def check_kinds(operator: Operator, chosen: list[Site]) -> None:
    """Key-value operators act on self-attention only, because they do not change the queries."""
    others = [site.name for site in chosen if site.kind != "self"]
    if others and not operator.reduces_queries:
        raise ValueError(f"{spec(operator)} acts on the keys of self-attention; it cannot act on {others[0]}")


def check_keys(operator: Operator, chosen: list[Site]) -> None:
    """Keys of their own need projections of their own, which not every joint attention has."""
    if operator.reduces_queries and not getattr(operator, "weighted", False):
        return
    for site in chosen:
        if site.stream is not None and site.kind == "self":
            check_projections(site.name, site.module)


def check_free(model: nn.Module, chosen: list[Site]) -> None:
    taken = {hook.site.name: spec(hook.attachment.operator) for hook in all_site_hooks(model) if hook.attachment}
    clash = [f"  {site.name}: {taken[site.name]}" for site in chosen if site.name in taken]
    if clash:
        raise ValueError(
            "these sites are already compressed; remove that handle, call bigain.restore(model), or choose other "
            "sites with where=:\n" + "\n".join(clash)
        )


def forget_compiled() -> None:
    """Make Dynamo compile again: it does not check hooks, so earlier graphs would run without the new ones.

    Nothing says which graphs hold which modules, so all of them are compiled again on their next run.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()

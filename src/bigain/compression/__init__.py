"""Attach an operator to a model, and take it off again without a trace."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

from bigain.backbones.family import family_of, find_model
from bigain.backbones.probe import LOCK, Probe, probe_of
from bigain.backbones.site import Site, Where, choose, parse_where
from bigain.checks import whole
from bigain.compression.attach import all_site_hooks, attach, detach
from bigain.compression.attachment import Groups, Job
from bigain.compression.hooks import SiteHook
from bigain.compression.status import SiteStatus, Status, site_status
from bigain.operators.base import Nothing, Operator, parse, spec


class Handle:
    """What `compress` returns: use it as a context manager, or call `remove()` when done."""

    def __init__(self, model: nn.Module, job: Job, hooks: list[SiteHook]) -> None:
        self._model = model
        self._job = job
        self._hooks = hooks

    @property
    def operator(self) -> Operator:
        return self._job.operator

    def __enter__(self) -> "Handle":
        if self._job.removed:
            raise RuntimeError("this operator was taken off already; call compress again, or use handle.paused()")
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take this operator off; what else is attached stays. Calling it again does nothing."""
        with LOCK:
            detach(self._model, [self._job])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The uncompressed model for a while."""
        before = self._job.active
        self._job.switch(on=False)
        try:
            yield
        finally:
            self._job.switch(on=before)

    def reset(self, start: int = 0) -> None:
        """Start the drawn patterns anew, as if just attached, or as if `start` passes had gone before.

        The number of passes is the model's: other operators that draw on it start anew, too.
        """
        self._job.probe.count.fill_(start)

    def status(self) -> Status:
        """One row for each site: tokens and FLOPs before and after, for one sample of the last call."""
        rows: list[SiteStatus] = []
        for hook in self._hooks:
            site = replace(hook.site, module=self._model.get_submodule(hook.site.name))
            rows.append(site_status(site, self._job.operator, hook.seen))
        return Status(rows)

    def __repr__(self) -> str:
        state = "removed" if self._job.removed else ("on" if self._job.active else "paused")
        return f"<{spec(self._job.operator)} on {len(self._hooks)} sites of {type(self._model).__name__}, {state}>"


def compress(
    model_or_pipeline: Any,
    operator: Operator | str,
    *,
    where: Where | Callable[[Site], bool] | str | None = None,
    reuse: Literal["stage"] | None = None,
    groups: Groups = None,
) -> Handle:
    """Compress a diffusers model, or the U-Net or transformer of a pipeline, with an operator, or with "none".

    `where` chooses the sites (by default the self-attentions of the finest grid of a U-Net, of the first 12 of 28
    blocks of a DiT): a `Where`, text such as `part="down"`, or a function of a `Site`, asked about self-attentions.
    `reuse="stage"` plans once in each stage of a forward pass. `groups=g` lets g consecutive rows of a batch share one
    plan, `groups="halves"` rows i and i + B/2, which are the two halves of classifier-free guidance, and
    `groups="input"` rows with the same noisy input: the classes of a trial, the two halves in `bigain generate` (other
    callers say so with `backbones.rows.same_input`; rows of which nothing is said have each their own plan).
    """
    model = find_model(model_or_pipeline)
    family = family_of(model)
    operator = as_operator(operator)
    groups = check_options(reuse, groups)
    sites = family.sites(model)
    chosen = choose(sites, as_where(where), family.default(sites), type(model).__name__)
    if isinstance(operator, Nothing):  # a handle like any other, of a probe that is put on no model
        job = Job(operator, reuse, groups, Probe(model, family), "")
        job.switch(on=True)
        return Handle(model, job, [])
    check_kinds(operator, chosen)
    with LOCK:
        check_free(model, chosen)
        known = probe_of(model)
        probe = known or Probe(model, family)
        keys = {job.key for hook in all_site_hooks(model) for job in hook.jobs}
        job = Job(operator, reuse, groups, probe, next(str(n) for n in range(len(keys) + 1) if str(n) not in keys))
        hooks = attach(model, sites, chosen, job)
        if known is None:
            probe.attach(model, sites)
        probe.attached_in.add(threading.get_ident())
        probe.counting = probe.counting or operator.draws
        probe.shares_inputs = probe.shares_inputs or groups == "input"
        job.switch(on=True)
    forget_compiled()
    return Handle(model, job, hooks)


def restore(model_or_pipeline: Any) -> None:
    """Remove everything that `compress` attached to a model or pipeline."""
    model = find_model(model_or_pipeline)
    with LOCK:
        detach(model, {job for hook in all_site_hooks(model) for job in hook.jobs})


def as_operator(operator: Operator | str) -> Operator:
    if isinstance(operator, str):
        return parse(operator)
    spec(operator)  # raises for what is no operator
    return operator


def as_where(where: Where | Callable[[Site], bool] | str | None) -> Where:
    if where is None or isinstance(where, Where):
        return where or Where()
    if isinstance(where, str):
        return parse_where(where)
    if callable(where) and not isinstance(where, type):
        return Where(only=where)
    raise TypeError(f"where is a Where, a function of a Site or text; got {where!r}")


def check_options(reuse: object, groups: Any) -> Groups:
    """The groups, a number of rows as an int."""
    if reuse is not None and (not isinstance(reuse, str) or reuse != "stage"):
        raise ValueError(f'reuse is None or "stage"; got {reuse!r}')
    if groups is None or (isinstance(groups, str) and groups in ("halves", "input")):
        return groups  # type: ignore[return-value]
    rows = whole(groups)
    if rows is None or rows < 1:
        raise ValueError(f'groups is None, a number of rows from 1, "halves" or "input"; got {groups!r}')
    return rows


def check_kinds(operator: Operator, chosen: list[Site]) -> None:
    """Key-value operators leave the queries alone, so they have nothing to do outside self-attention."""
    others = [site.name for site in chosen if site.kind != "self"]
    if others and not operator.shortens:
        raise ValueError(f"{spec(operator)} acts on the keys of self-attention; it cannot act on {others[0]}")


def check_free(model: nn.Module, chosen: list[Site]) -> None:
    taken = {hook.site.name: spec(hook.job.operator) for hook in all_site_hooks(model) if hook.job}
    clash = [f"  {site.name}: {taken[site.name]}" for site in chosen if site.name in taken]
    if clash:
        raise ValueError(
            "these sites are compressed already; remove that handle, call bigain.restore(model), or choose other "
            "sites with where=:\n" + "\n".join(clash)
        )


def forget_compiled() -> None:
    """A graph compiled before, of the model or of a part of it, would run without the new hooks: Dynamo does not look
    at hooks again. Nothing tells which graphs hold which modules, so all are made anew when they next run.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()

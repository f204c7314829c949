"""Attach an operator to a model, and remove it without a trace."""

import sys
import threading
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from bigain.compression.attach import all_site_hooks, attach, detach
from bigain.compression.attachment import Attachment
from bigain.compression.document import Setting
from bigain.compression.handle import Attached, Handle
from bigain.compression.joint import check_projections
from bigain.compression.presets import resolve
from bigain.compression.setting import Compression, Groups, Sites, as_where
from bigain.models.family import family_of, find_model
from bigain.models.probe import LOCK, Probe, probe_of
from bigain.models.site import Site, choose
from bigain.models.stand_in import keeps_steps, remove_stand_ins
from bigain.models.windows import Window, overlap
from bigain.operators.base import Nothing, Operator, is_identity, spec

__all__ = ["Compression", "Handle", "Setting", "compress", "restore", "sites"]


def compress(
    model_or_pipeline: Any,
    operator: "Operator | Compression | Setting | str | Path",
    *,
    where: Sites = None,
    reuse: Literal["stage"] | None = None,
    groups: Groups = None,
    correct: bool = False,
    when: Window | None = None,
) -> Handle:
    """Compress a diffusers model, or the U-Net or transformer of a pipeline, with an operator.

    `operator` is an instance, a string such as "gated_merge(ratio=0.7)", or "none". A `Compression` holds all
    arguments and may be passed instead. So may a `Setting`: several operators that `bigain.tune` found for this model,
    as an object, its file "setting.json", or the Hub model ID of one; or a preset, "quality", "balanced" or "fast".

    `where` chooses the sites: a `Where`, a string such as "part='down'", or a function that filters self-attentions
    by `Site`. The default is the self-attentions of the finest grid of a U-Net, or of the first 12 of 28 blocks of a
    transformer; joint attention counts as self-attention of the image.

    `reuse="stage"` plans once per stage of a forward pass, not once per block.

    `groups` says which rows of a batch share a plan. An int g means g consecutive rows. "cfg" means rows i and
    i + B/2, the two halves of classifier-free guidance. "input" means rows with the same noisy input: the classes of a
    trial in `DiffusionClassifier`, the two halves of guidance in `bigain.generate`. Other callers declare such rows
    with `models.rows.same_input`; undeclared rows do not share.

    "classes" is "input" for the classes of a trial alone; in generation each row has its own plan.

    `when=(500, 999)` lets the operator act in these timesteps only, both included, in a batch of several timesteps on
    the rows that are in it. Other operators may act on the same sites at other timesteps.

    `correct=True` removes the error that compression makes on the mean row of a group from all of its rows. A
    classifier then keeps nearly all of its decisions, at the cost of one dense and one compressed row per group.
    """
    model = find_model(model_or_pipeline)
    wanted = resolve(operator, model)
    if isinstance(wanted, Setting):
        check_alone(wanted, where, reuse, groups, correct, when)
        compressions = wanted.parts
    else:
        compressions = (as_compression(wanted, where, reuse, groups, correct, when),)
    parts: list[Attached] = []
    try:
        for compression in compressions:
            parts.append(attached(model, compression))
    except BaseException:
        with LOCK:
            detach(model, [part.attachment for part in parts])
        raise
    forget_compiled()
    return Handle(model, parts)


def attached(model: nn.Module, compression: Compression) -> Attached:
    """Attach one operator to its sites."""
    family = family_of(model)
    chosen = sites(model, compression.where)
    if isinstance(compression.operator, Nothing):  # part of a handle like any other, of a probe that is on no model
        attachment = Attachment(compression, Probe(model, family), "")
        attachment.switch(on=True)
        return Attached(attachment, [])
    check_kinds(compression.operator, chosen)
    check_keys(compression.operator, chosen)
    if keeps_steps(model) and (compression.operator.reduces_queries or compression.correct):
        raise ValueError(
            "blocks of this model give their output of the step before, which does not fit other merged tokens; remove "
            "the gates, or use a key-value operator without correct=True"
        )
    with LOCK:
        check_free(model, chosen, compression.when)
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
        probe.shares_inputs = probe.shares_inputs or compression.groups in ("input", "classes")
        others = {key: window for key, window in probe.windows.items() if key != attachment.key}
        probe.windows = others | ({attachment.key: compression.when} if compression.when else {})
        probe.reads_text = probe.reads_text or (compression.correct and any(site.kind == "cross" for site in chosen))
        attachment.switch(on=True)
    return Attached(attachment, hooks)


def as_compression(
    operator: Operator | Compression | str, where: Sites, reuse: Any, groups: Any, correct: Any, when: Any
) -> Compression:
    if not isinstance(operator, Compression):
        return Compression(operator, where, reuse, groups, correct, when)
    options = {"where": where, "reuse": reuse, "groups": groups, "correct": correct or None, "when": when}
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise TypeError(
            f"{given[0]} must be set in the Compression, got both; use dataclasses.replace(compression, {given[0]}=…)"
        )
    return operator


def check_alone(setting: Setting, *options: Any) -> None:
    names = ("where", "reuse", "groups", "correct", "when")
    given = [name for name, value in zip(names, options, strict=True) if value not in (None, False)]
    if given:
        raise TypeError(f"{given[0]} is part of a setting; change it in {setting.name or 'the setting'} itself")


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
    if (operator.reduces_queries and not getattr(operator, "weighted", False)) or is_identity(operator):
        return
    for site in chosen:
        if site.stream is not None and site.kind == "self":
            check_projections(site.name, site.module)


def check_free(model: nn.Module, chosen: list[Site], when: Window | None) -> None:
    taken = {
        hook.site.name: f"{spec(one.operator)}{f', when={one.when}' if one.when else ''}"
        for hook in all_site_hooks(model)
        for one in hook.attachments
        if not one.removed and overlap(one.when, when)
    }
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

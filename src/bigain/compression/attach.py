"""Hooks on a model: attached, found again, and removed as soon as no pass needs them."""

from collections.abc import Collection, Iterator
from typing import Any

from torch import nn

from bigain.compression.attachment import Attachment
from bigain.compression.entry import KeyValue
from bigain.compression.hooks import SiteHook
from bigain.compression.joint import PartHook
from bigain.models.probe import Probe, SpatialHook, probe_of
from bigain.models.site import Site


def our_hooks(module: nn.Module) -> Iterator[tuple[dict[int, Any], int, Any]]:
    """(dict, key, owner) of each of our hooks on one module; the owner is a Probe or one of our hooks."""
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key, hook in list(hooks.items()):
            owner = getattr(hook, "__self__", None)
            if isinstance(owner, Probe | SpatialHook | SiteHook | PartHook):
                yield hooks, key, owner


def all_site_hooks(model: nn.Module) -> list[SiteHook]:
    found = (owner for module in model.modules() for _, _, owner in our_hooks(module))
    return list(dict.fromkeys(owner for owner in found if isinstance(owner, SiteHook)))


def site_hooks(model: nn.Module) -> list[SiteHook]:
    """Hooks of the sites with something attached."""
    return [hook for hook in all_site_hooks(model) if hook.attachment is not None]


def attach(model: nn.Module, sites: list[Site], chosen: list[Site], attachment: Attachment) -> list[SiteHook]:
    """Attach to the chosen sites and return their hooks. All sites of these kinds get hooks, see `SiteHook`."""
    known = {hook.site.name: hook for hook in all_site_hooks(model)}
    kinds = {site.kind for site in chosen}
    for site in sites:
        if site.kind in kinds and site.name not in known:
            known[site.name] = SiteHook(site, attachment.probe)
            known[site.name].attach(site.module)
    hooks = [known[site.name] for site in chosen]
    for hook in hooks:
        hook.attachments = (*hook.attachments, attachment)
        hook.traces.pop(attachment.key, None)
    return hooks


def detach(model: nn.Module, attachments: Collection[Attachment]) -> None:
    """Switch attachments off, and remove their hooks as soon as no pass needs them."""
    for attachment in attachments:
        attachment.switch(on=False)  # a compiled graph guards on this, not on the hooks
        attachment.removed = True
    probe = probe_of(model)
    if probe is not None:
        probe.when_idle(lambda: sweep(model))


def sweep(model: nn.Module) -> None:
    """Drop removed attachments; with the last one all hooks go."""
    hooks = all_site_hooks(model)
    for hook in hooks:
        hook.attachments = tuple(attachment for attachment in hook.attachments if not attachment.removed)
    if not any(hook.attachments for hook in hooks):
        remove_hooks(model)


def remove_hooks(model: nn.Module) -> None:
    probe = probe_of(model)
    if probe is not None:
        probe.gone = True
    for module in model.modules():
        for hooks, key, _ in our_hooks(module):
            del hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)
            module._forward_hooks_always_called.pop(key, None)
            if isinstance(module.__dict__.get("to_kv"), KeyValue):
                del module.__dict__["to_kv"]

"""Hooks on a model: attached, found again, and removed as soon as no pass needs them."""

from collections.abc import Collection

from torch import nn

from bigain.compression.attachment import Attachment
from bigain.compression.hooks import SiteHook
from bigain.models.hooks import owners, sweep
from bigain.models.probe import probe_of
from bigain.models.site import Site
from bigain.models.stand_in import stand_in_of


def all_site_hooks(model: nn.Module) -> list[SiteHook]:
    return [owner for owner in owners(model) if isinstance(owner, SiteHook)]


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
    introduce(model)
    hooks = [known[site.name] for site in chosen]
    for hook in hooks:
        hook.attachments = (*hook.attachments, attachment)
        hook.traces.pop(attachment.key, None)
    return hooks


def introduce(model: nn.Module) -> None:
    """Tell site hooks what stands in for their modules, after either was attached or removed."""
    for hook in all_site_hooks(model):
        hook.stand_in = stand_in_of(model.get_submodule(hook.site.name))


def detach(model: nn.Module, attachments: Collection[Attachment]) -> None:
    """Switch attachments off, and remove their hooks as soon as no pass needs them."""
    for attachment in attachments:
        attachment.switch(on=False)  # a compiled graph guards on this, not on the hooks
        attachment.removed = True
    probe = probe_of(model)
    if probe is not None:
        probe.when_idle(lambda: sweep(model))

"""Attach an operator to a model, and take it off again without a trace."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from bigain.backbones.family import Family, family_of, find_model
from bigain.backbones.probe import BlockCall, Probe
from bigain.backbones.site import Site, Where, choose, parse_where
from bigain.operators.base import Call, Operator, parse, spec
from bigain.status import SiteStatus, Status, site_status
from bigain.tokens.grid import Grid
from bigain.tokens.plan import Plan, share

Groups = int | Literal["halves"] | None


class Seen(NamedTuple):
    """What a site did in its last call: tokens, queries and keys of one row, its grid, and whether it planned."""

    grid: Grid
    tokens: int
    queries: int
    keys: int
    context: int  # tokens of the text that cross-attention looks at
    planned: bool


class Job:
    """One call of `compress`: an operator, its options, and whether it is switched on."""

    def __init__(self, operator: Operator, reuse: str | None, groups: Groups, probe: Probe, key: str) -> None:
        self.operator = operator
        self.reuse = reuse
        self.groups = groups
        self.probe = probe
        self.key = key
        self.active = True
        self.removed = False

    @torch.no_grad()
    def plan(self, site: Site, block: BlockCall, x: Tensor) -> tuple[Plan, bool]:
        """The plan for a site, and whether it had to be made: one for each block, or each stage with reuse."""
        key = f"{self.key}/{site.stage if self.reuse == 'stage' else site.block}"
        plans = block.forward.plans
        if key in plans:
            return plans[key], False
        tokens = block.x if self.probe.family.metric == "block" else x
        if tokens.shape[1] != block.grid.tokens:
            raise RuntimeError(f"{site.name} got {tokens.shape[1]} tokens, but its grid is {block.grid}")
        plans[key] = self._plan(tokens.detach(), block, site.index)
        return plans[key], True

    def _plan(self, x: Tensor, block: BlockCall, number: int) -> Plan:
        call = Call(block.grid, block.forward.t, block.forward.draw, number)
        if self.groups is None or not self.operator.looks:
            return self.operator.plan(x, call)
        x, rows = grouped(x, self.groups)
        return share(self.operator.plan(x, call._replace(t=None)), rows)


def grouped(x: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """The mean row of each group, and the group of each row: (B, N, C) -> (G, N, C), (B,)."""
    batch = len(x)
    size = 2 if groups == "halves" else groups
    assert isinstance(size, int)
    if batch % size:
        raise ValueError(f"groups={groups!r} needs a batch of a multiple of {size} rows; got {batch}")
    number = torch.arange(batch, device=x.device)
    if groups == "halves":
        return x.unflatten(0, (2, -1)).mean(0), number % (batch // 2)
    return x.unflatten(0, (-1, size)).mean(1), number // size


class SiteHook:
    """The two hooks of one site: shorten the tokens before, restore them after."""

    def __init__(self, site: Site, job: Job) -> None:
        self.site = replace(site, module=nn.Identity())  # a copied model must not carry the original's module
        self.job = job
        self.seen: Seen | None = None
        self.local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, local=threading.local())

    def before(self, module: Any, args: Any, kwargs: Any) -> Any:
        self.local.plan = None
        if not self.job.active:
            return None
        x = args[0] if args else kwargs["hidden_states"]
        plan, planned = self.job.plan(self.site, self.job.probe.block(), x)
        self.local.plan = plan
        queries, context = plan.queries(x), plan.context(x)
        new: dict[str, Any] = {}
        text = 0
        if self.site.kind == "self":
            bias = plan.key_bias(x)
            if kwargs.get("attention_mask") is not None:
                raise ValueError(f"{self.site.name} was given an attention mask, which compressed tokens cannot follow")
            if context is not None:
                split_fused(module)
                new["encoder_hidden_states"] = context
            if bias is not None:
                new["attention_mask"] = bias
        elif self.site.kind == "cross":
            text = text_length(kwargs)
        keys = queries.shape[1] if context is None else context.shape[1]
        self.seen = Seen(self.job.probe.block().grid, x.shape[1], queries.shape[1], keys, text, planned)
        if args:
            return (queries, *args[1:]), {**kwargs, **new}
        return args, {**kwargs, **new, "hidden_states": queries}

    def after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        plan: Plan | None = self.local.plan
        self.local.plan = None
        return None if plan is None else plan.restore(output)


def text_length(kwargs: dict[str, Any]) -> int:
    text = kwargs.get("encoder_hidden_states")
    text = text[0] if isinstance(text, tuple) else text  # an IP-Adapter adds its image tokens as a second part
    return 0 if text is None else int(text.shape[1])


class KeyValue:
    """Stands in for the joint key-value projection that diffusers' fused self-attention does not have."""

    def __init__(self, attention: Any) -> None:
        self.to_k, self.to_v = attention.to_k, attention.to_v

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([self.to_k(x), self.to_v(x)], -1)


def split_fused(attention: Any) -> None:
    """Let a self-attention with fused projections take keys and values from elsewhere."""
    if getattr(attention, "fused_projections", False) and not hasattr(attention, "to_kv"):
        attention.__dict__["to_kv"] = KeyValue(attention)


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
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take this operator off; what else is attached stays. Calling it again does nothing."""
        self._job.active = False  # a compiled graph guards on this, not on the hooks
        self._job.removed = True
        detach(self._model, lambda hook: isinstance(hook, SiteHook) and hook.job is self._job)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The uncompressed model for a while."""
        before, self._job.active = self._job.active, False
        try:
            yield
        finally:
            self._job.active = before and not self._job.removed

    def reset(self) -> None:
        """Start the drawn patterns anew, as if just attached."""
        self._job.probe.count.zero_()

    def status(self) -> Status:
        """One row for each site: tokens and FLOPs before and after, for one sample of the last call."""
        rows: list[SiteStatus] = []
        for hook in self._hooks:
            site = replace(hook.site, module=self._model.get_submodule(hook.site.name))
            rows.append(site_status(site, self._job.operator, hook.seen, self._job.groups))
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
    """Compress a diffusers model, or the U-Net or transformer of a pipeline, with an operator.

    `where` chooses the sites (by default the self-attentions of the finest grid of a U-Net, of the first 12 of 28
    blocks of a DiT): a `Where`, a function of a `Site`, or text such as `part="down"`. `reuse="stage"` plans once in
    each stage of a forward pass. `groups=g` lets g consecutive rows of a batch share one plan, `groups="halves"`
    rows i and i + B/2, which are the two halves of classifier-free guidance.
    """
    model = find_model(model_or_pipeline)
    family = family_of(model)
    operator = as_operator(operator)
    check_options(reuse, groups)
    sites = family.sites(model)
    chosen = choose(sites, as_where(where), family.default(sites), type(model).__name__)
    check_kinds(operator, chosen)
    check_free(model, chosen)

    probe = probe_of(model) or attach_probe(model, family, sites)
    jobs = {hook.job.key for hook in site_hooks(model)}
    key = next(str(n) for n in range(len(jobs) + 1) if str(n) not in jobs)
    job = Job(operator, reuse, groups, probe, key)
    probe.counting = probe.counting or operator.draws
    hooks = [SiteHook(site, job) for site in chosen]
    for hook, site in zip(hooks, chosen, strict=True):
        site.module.register_forward_pre_hook(hook.before, with_kwargs=True)
        site.module.register_forward_hook(hook.after, with_kwargs=True)
    forget_compiled()
    return Handle(model, job, hooks)


def restore(model_or_pipeline: Any) -> None:
    """Remove everything that `compress` attached to a model or pipeline."""
    model = find_model(model_or_pipeline)
    for hook in site_hooks(model):
        hook.job.active, hook.job.removed = False, True
    detach(model, lambda hook: True)


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
    if callable(where):
        return Where(only=where)
    raise TypeError(f"where is a Where, a function of a Site or text; got {where!r}")


def check_options(reuse: object, groups: object) -> None:
    if reuse not in (None, "stage"):
        raise ValueError(f'reuse is None or "stage"; got {reuse!r}')
    if groups not in (None, "halves") and (type(groups) is not int or groups < 1):
        raise ValueError(f'groups is None, a number of rows from 1, or "halves"; got {groups!r}')


def check_kinds(operator: Operator, chosen: list[Site]) -> None:
    """Key-value operators leave the queries alone, so they have nothing to do outside self-attention."""
    others = [site.name for site in chosen if site.kind != "self"]
    if others and not operator.shortens:
        raise ValueError(f"{spec(operator)} acts on the keys of self-attention; it cannot act on {others[0]}")


def check_free(model: nn.Module, chosen: list[Site]) -> None:
    taken = {hook.site.name: spec(hook.job.operator) for hook in site_hooks(model)}
    clash = [f"  {site.name}: {taken[site.name]}" for site in chosen if site.name in taken]
    if clash:
        raise ValueError(
            "these sites are compressed already; remove that handle, call bigain.restore(model), or choose other "
            "sites with where=:\n" + "\n".join(clash)
        )


def attach_probe(model: nn.Module, family: Family, sites: list[Site]) -> Probe:
    probe = Probe(model, family)
    probe.attach(model, sites)
    return probe


def our_hooks(module: nn.Module) -> Iterator[tuple[dict[int, Any], int, Any]]:
    """(dict, key, owner) of each of our hooks on one module; the owner is a Probe or a SiteHook."""
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key, hook in list(hooks.items()):
            owner = getattr(hook, "__self__", None)
            if isinstance(owner, Probe | SiteHook):
                yield hooks, key, owner


def site_hooks(model: nn.Module) -> list[SiteHook]:
    found = (owner for module in model.modules() for _, _, owner in our_hooks(module))
    return list(dict.fromkeys(owner for owner in found if isinstance(owner, SiteHook)))


def probe_of(model: nn.Module) -> Probe | None:
    return next((owner for _, _, owner in our_hooks(model) if isinstance(owner, Probe)), None)


def detach(model: nn.Module, chosen: Callable[[SiteHook], bool]) -> None:
    """Remove the chosen site hooks, and the probe with the last of them."""
    remove_hooks(model, lambda owner: isinstance(owner, SiteHook) and chosen(owner))
    if not site_hooks(model):
        remove_hooks(model, lambda owner: True)


def remove_hooks(model: nn.Module, chosen: Callable[[Any], bool]) -> None:
    for module in model.modules():
        for hooks, key, owner in our_hooks(module):
            if chosen(owner):
                del hooks[key]
                module._forward_pre_hooks_with_kwargs.pop(key, None)
                module._forward_hooks_with_kwargs.pop(key, None)
                if isinstance(module.__dict__.get("to_kv"), KeyValue):
                    del module.__dict__["to_kv"]


def forget_compiled() -> None:
    """A graph compiled before, of the model or of a part of it, would run without the new hooks: Dynamo does not look
    at hooks again. Nothing tells which graphs hold which modules, so all are made anew when they next run.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()

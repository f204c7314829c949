"""The hooks that compression puts on a model: making them work, finding them, taking them off."""

import threading
import warnings
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from bigain.backbones.probe import Alike, BlockCall, Pass, Probe, SpatialHook, probe_of
from bigain.backbones.site import Site
from bigain.operators.base import Call, Operator
from bigain.tokens.constants import numbers
from bigain.tokens.grid import Grid
from bigain.tokens.plan import Plan, share
from bigain.tokens.precision import sum_dtype

Groups = int | Literal["halves", "input"] | None


class Seen(NamedTuple):
    """What a site did in its last call: tokens, queries and keys of one row, its grid, and the rows of a plan."""

    grid: Grid
    tokens: int
    queries: int
    keys: int
    context: int  # tokens of the text that cross-attention looks at
    sharing: int  # rows of the batch for each plan that was made here; 0 if it was made elsewhere


class Job:
    """One call of `compress`: an operator, its options, and whether it is switched on."""

    def __init__(self, operator: Operator, reuse: str | None, groups: Groups, probe: Probe, key: str) -> None:
        self.operator = operator
        self.reuse = reuse
        self.groups = groups
        self.probe = probe
        self.key = key
        self.removed = False
        self.warned = False

    @property
    def active(self) -> bool:
        return self.key in self.probe.active

    def switch(self, on: bool) -> None:
        """For passes that begin from now on; what was removed stays off."""
        self.probe.switch(self.key, on and not self.removed)

    @torch.no_grad()
    def plan(self, hook: "SiteHook", block: BlockCall, x: Tensor) -> tuple[Plan, bool]:
        """The plan for a site, and whether it had to be made: one for each block, or each stage with reuse."""
        plans, key = block.stage_plans if self.reuse == "stage" else block.plans, self.key
        if key in plans:
            return plans[key], False
        tokens = block.x if self.probe.family.metric == "block" else x
        if tokens.shape[1] != block.grid.tokens:
            raise RuntimeError(f"{hook.site.name} got {tokens.shape[1]} tokens, but its grid is {block.grid}")
        x, call = tokens.detach(), self.call(hook, block, tokens.shape[0])
        alike = self.alike(x, block.forward)
        if alike is None:
            plans[key] = self.operator.plan(x, call)
            return plans[key], True
        cell = block.forward.next_kept(self.key)
        made = cell.plan is None
        if cell.plan is None:
            cell.plan = self.operator.plan(group_means(x, alike), group_call(call, alike))
        plans[key] = share(cell.plan, alike.rows)
        return plans[key], made

    def call(self, hook: "SiteHook", block: BlockCall, rows: int) -> Call:
        """What the operator is told; for one that draws, keys of the inputs or else the number of the pass."""
        forward, alike = block.forward, block.forward.alike
        key, member = hook.zero, numbers(rows, hook.zero.device)
        if self.operator.draws and alike is not None and alike.keys is not None:
            key = alike.keys.index_select(0, alike.rows)
            member = torch.zeros_like(key) if alike.members is None else alike.members
        elif self.operator.draws and forward.draw is not None:
            key = forward.draw
        return Call(block.grid, forward.t, key, hook.number, member)

    def alike(self, x: Tensor, forward: Pass) -> Alike | None:
        """Which rows share a plan, or None where each has its own."""
        if self.groups is None or not self.operator.looks:
            return None
        if self.groups == "input":
            if forward.alike is not None and forward.alike.rows.shape[0] != x.shape[0]:
                raise RuntimeError(f"told of {len(forward.alike.rows)} rows with the same input, but got {len(x)}")
            if forward.alike is None and x.shape[0] > 1:
                self._warn_of_strangers()
            return forward.alike
        size = 2 if self.groups == "halves" else self.groups
        if x.shape[0] % size:
            why = "; does the pipeline run without guidance (guidance_scale of 1, guess mode)? Leave groups out then"
            raise ValueError(
                f"groups={self.groups!r} needs a batch of a multiple of {size} rows; got {len(x)}"
                + (why if self.groups == "halves" else "")
            )
        number = numbers(x.shape[0], x.device)
        count = x.shape[0] // size
        return Alike(number % count if self.groups == "halves" else number // size, count)

    def _warn_of_strangers(self) -> None:
        """Once: nothing is shared where nobody says which rows are alike, as in a pipeline of diffusers."""
        if not self.warned and not torch.compiler.is_compiling():
            self.warned = True
            warnings.warn(
                'groups="input" shares no plan here: only `DiffusionClassifier` and `bigain.generate` say which rows '
                'have the same noisy input. For the two halves of a pipeline\'s guidance take groups="halves"',
                stacklevel=2,
            )


def group_means(x: Tensor, alike: Alike) -> Tensor:
    """The mean row of each group, of those that speak for it: (B, N, C) -> (G, N, C)."""
    wide = sum_dtype(x.dtype)
    voice = torch.ones(x.shape[0], dtype=wide, device=x.device) if alike.speak is None else alike.speak.to(wide)
    spoken = x.to(wide) * voice.view(-1, 1, 1)
    total = x.new_zeros((alike.inputs, *x.shape[1:]), dtype=wide).index_add(0, alike.rows, spoken)
    size = torch.zeros(alike.inputs, dtype=wide, device=x.device).index_add(0, alike.rows, voice)
    return (total / size.clamp_min(1).view(-1, 1, 1)).to(x.dtype)


def group_call(call: Call, alike: Alike) -> Call:
    """What the operator is told of groups: drawn patterns depend on the first of a group's rows."""

    def first(values: Tensor) -> Tensor:
        return values.new_zeros(alike.inputs).scatter_reduce(0, alike.rows, values, "amin", include_self=False)

    if call.draw_key is None or call.member is None:
        return call._replace(t=None)
    key = call.draw_key if call.draw_key.shape[0] == 1 else first(call.draw_key)
    return call._replace(t=None, draw_key=key, member=first(call.member))


class SiteHook:
    """The two hooks of one site: shorten the tokens before, restore them after.

    `jobs` are all that act here, of which a pass has at most one switched on; there may be none, since compilers
    would otherwise take the site for another one's twin.
    """

    def __init__(self, site: Site, probe: Probe) -> None:
        self.site = replace(site, module=nn.Identity())  # a copied model must not carry the original's module
        self.probe = probe
        self.jobs: tuple[Job, ...] = ()
        # tensors: one graph serves all sites, and TorchInductor gets hashes of constants wrong
        with torch.inference_mode(False):
            self.number = torch.tensor(site.index, device="cpu")
            self.zero = torch.zeros(1, dtype=torch.int64, device="cpu")
        self.seen: Seen | None = None
        self.local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, local=threading.local())

    def attach(self, module: nn.Module) -> None:
        module.register_forward_hook(self.after)
        module.register_forward_pre_hook(self.before, with_kwargs=True)

    @property
    def job(self) -> Job | None:
        """What is attached here now."""
        return next((job for job in self.jobs if not job.removed), None)

    def _acting(self, forward: Pass) -> Job | None:
        """What was switched on here when the pass began."""
        for job in self.jobs:
            if job.key in forward.active:
                return job
        return None

    def before(self, module: Any, args: Any, kwargs: Any = None) -> Any:
        self.local.plan = None
        block = self.probe.current()
        # without kwargs torch calls a hook that another thread is just putting on or taking off
        job = None if block is None or kwargs is None else self._acting(block.forward)
        if job is None or block is None:
            return None
        x = args[0] if args else kwargs["hidden_states"]
        if x.shape[:2] != block.x.shape[:2]:
            raise RuntimeError(
                f"{self.site.name} got {tuple(x.shape[:2])} rows and tokens of its block's {tuple(block.x.shape[:2])}; "
                "a part of them (chunked feed-forward) cannot be compressed: switch chunking off, or leave the module "
                "out with where="
            )
        if self.zero.device != x.device and not torch.compiler.is_compiling():
            self.number, self.zero = self.number.to(x.device), self.zero.to(x.device)
        plan, planned = job.plan(self, block, x)
        self.local.plan = plan
        queries, context = plan.queries(x), plan.context(x)
        new: dict[str, Any] = {}
        text = 0
        if self.site.kind == "self":
            new = self._self_attention(module, kwargs, context, plan.key_bias(x))
        elif self.site.kind == "cross":
            text = text_length(kwargs)
            if kwargs.get("ip_adapter_masks") is not None and queries.shape[1] < x.shape[1]:
                raise ValueError(
                    f"{self.site.name} was given masks of an IP-Adapter, which merged tokens cannot follow; leave "
                    '"cross" out of where\'s module='
                )
        keys = queries.shape[1] if context is None else context.shape[1]
        alike = job.alike(x, block.forward) if planned else None
        sharing = (x.shape[0] // alike.inputs if alike else 1) if planned else 0
        self.seen = Seen(block.grid, x.shape[1], queries.shape[1], keys, text, sharing)
        if args:
            return (queries, *args[1:]), {**kwargs, **new}
        return args, {**kwargs, **new, "hidden_states": queries}

    def _self_attention(
        self, module: Any, kwargs: dict[str, Any], context: Tensor | None, bias: Tensor | None
    ) -> dict[str, Any]:
        """The arguments that give self-attention other keys, or weights for them."""
        if kwargs.get("attention_mask") is not None:
            raise ValueError(f"{self.site.name} was given an attention mask, which compressed tokens cannot follow")
        if context is not None or bias is not None:
            check_processor(self.site.name, module)
        new: dict[str, Any] = {}
        if context is not None:
            split_fused(module)
            new["encoder_hidden_states"] = context
        if bias is not None:
            new["attention_mask"] = bias
        return new

    def after(self, module: nn.Module, args: Any, output: Any) -> Any:
        plan: Plan | None = getattr(self.local, "plan", None)
        self.local.plan = None
        return None if plan is None else plan.restore(output)


def check_processor(name: str, attention: Any) -> None:
    """Perturbed-attention guidance computes self-attention by itself, whatever it is handed as keys or as a mask."""
    if type(attention.processor).__name__.startswith("PAG"):
        raise ValueError(
            f"{name} runs perturbed-attention guidance, which takes neither other keys nor weights; there take an "
            "operator that merges, without weighted=True, or leave the layer out with where="
        )


def text_length(kwargs: dict[str, Any]) -> int:
    text = kwargs.get("encoder_hidden_states")
    text = text[0] if isinstance(text, tuple) else text  # an IP-Adapter adds its image tokens as a second part
    return 0 if text is None else int(text.shape[1])


class KeyValue:
    """Stands in for the joint key-value projection that diffusers' fused self-attention does not have."""

    def __init__(self, attention: Any) -> None:
        self.attention = attention

    def __call__(self, x: Tensor) -> Tensor:
        # looked up now: an adapter may have wrapped the projections since
        return torch.cat([self.attention.to_k(x), self.attention.to_v(x)], -1)


def split_fused(attention: Any) -> None:
    """Let a self-attention with fused projections take keys and values from elsewhere."""
    if getattr(attention, "fused_projections", False) and not hasattr(attention, "to_kv"):
        attention.__dict__["to_kv"] = KeyValue(attention)


def our_hooks(module: nn.Module) -> Iterator[tuple[dict[int, Any], int, Any]]:
    """(dict, key, owner) of each of our hooks on one module; the owner is a Probe, a SpatialHook or a SiteHook."""
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key, hook in list(hooks.items()):
            owner = getattr(hook, "__self__", None)
            if isinstance(owner, Probe | SpatialHook | SiteHook):
                yield hooks, key, owner


def all_site_hooks(model: nn.Module) -> list[SiteHook]:
    found = (owner for module in model.modules() for _, _, owner in our_hooks(module))
    return list(dict.fromkeys(owner for owner in found if isinstance(owner, SiteHook)))


def site_hooks(model: nn.Module) -> list[SiteHook]:
    """Those of the sites that something is attached to."""
    return [hook for hook in all_site_hooks(model) if hook.job is not None]


def attach(model: nn.Module, sites: list[Site], chosen: list[Site], job: Job) -> list[SiteHook]:
    """Put a job on its sites: -> their hooks. All sites of their kinds get hooks, see `SiteHook`."""
    known = {hook.site.name: hook for hook in all_site_hooks(model)}
    kinds = {site.kind for site in chosen}
    for site in sites:
        if site.kind in kinds and site.name not in known:
            known[site.name] = SiteHook(site, job.probe)
            known[site.name].attach(site.module)
    hooks = [known[site.name] for site in chosen]
    for hook in hooks:
        hook.jobs, hook.seen = (*hook.jobs, job), None
    return hooks


def detach(model: nn.Module, jobs: Collection[Job]) -> None:
    """Switch jobs off, and take their hooks from the modules as soon as no pass needs them."""
    for job in jobs:
        job.switch(on=False)  # a compiled graph guards on this, not on the hooks
        job.removed = True
    probe = probe_of(model)
    if probe is not None:
        probe.when_idle(lambda: sweep(model))


def sweep(model: nn.Module) -> None:
    """Forget what was removed; with the last of it all hooks go."""
    hooks = all_site_hooks(model)
    for hook in hooks:
        hook.jobs = tuple(job for job in hook.jobs if not job.removed)
    if not any(hook.jobs for hook in hooks):
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

"""The hooks that compression puts on a model: making them work, finding them, taking them off."""

import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from bigain.backbones.probe import Alike, BlockCall, Pass, Probe
from bigain.backbones.site import Site
from bigain.operators.base import Call, Operator
from bigain.tokens.constants import numbers
from bigain.tokens.grid import Grid
from bigain.tokens.plan import Plan, share

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
        self.active = True
        self.removed = False
        self.warned = False

    def on(self) -> bool:
        """Switched on in this forward pass; what was recomputed for a backward is what it was, also after `paused`."""
        block = self.probe.current()
        return self.active if block is None else block.forward.on.setdefault(self.key, self.active)

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
        x, call = tokens.detach(), Call(block.grid, block.forward.t, block.forward.draw, site.index)
        alike = self.alike(x, block.forward)
        if alike is None:
            plans[key] = self.operator.plan(x, call)
            return plans[key], True
        made = key not in alike.kept
        if made:
            alike.kept[key] = self.operator.plan(group_means(x, alike), call._replace(t=None))
        plans[key] = share(alike.kept[key], alike.rows)
        return plans[key], made

    def alike(self, x: Tensor, forward: Pass) -> Alike | None:
        """Which rows share a plan, or None where each has its own."""
        if self.groups is None or not self.operator.looks:
            return None
        if self.groups == "input":
            if forward.alike is not None and len(forward.alike.rows) != len(x):
                raise RuntimeError(f"told of {len(forward.alike.rows)} rows with the same input, but got {len(x)}")
            if forward.alike is None and len(x) > 1:
                self._warn_of_strangers()
            return forward.alike
        size = 2 if self.groups == "halves" else self.groups
        if len(x) % size:
            why = "; does the pipeline run without guidance (guidance_scale of 1, guess mode)? Leave groups out then"
            raise ValueError(
                f"groups={self.groups!r} needs a batch of a multiple of {size} rows; got {len(x)}"
                + (why if self.groups == "halves" else "")
            )
        number = numbers(len(x), x.device)
        count = len(x) // size
        return Alike(number % count if self.groups == "halves" else number // size, count, None, {})

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
    voice = torch.ones(len(x), device=x.device) if alike.speak is None else alike.speak.float()
    spoken = x.float() * voice.view(-1, 1, 1)
    total = x.new_zeros((alike.inputs, *x.shape[1:]), dtype=torch.float32).index_add(0, alike.rows, spoken)
    size = torch.zeros(alike.inputs, device=x.device).index_add(0, alike.rows, voice)
    return (total / size.clamp_min(1).view(-1, 1, 1)).to(x.dtype)


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
        if not self.job.on():
            return None
        x = args[0] if args else kwargs["hidden_states"]
        block = self.job.probe.block()
        if x.shape[:2] != block.x.shape[:2]:
            raise RuntimeError(
                f"{self.site.name} got {tuple(x.shape[:2])} rows and tokens of its block's {tuple(block.x.shape[:2])}; "
                "a part of them (chunked feed-forward) cannot be compressed: switch chunking off, or leave the module "
                "out with where="
            )
        plan, planned = self.job.plan(self.site, block, x)
        self.local.plan = plan
        queries, context = plan.queries(x), plan.context(x)
        new: dict[str, Any] = {}
        text = 0
        if self.site.kind == "self":
            bias = plan.key_bias(x)
            if kwargs.get("attention_mask") is not None:
                raise ValueError(f"{self.site.name} was given an attention mask, which compressed tokens cannot follow")
            if context is not None or bias is not None:
                check_processor(self.site.name, module)
            if context is not None:
                split_fused(module)
                new["encoder_hidden_states"] = context
            if bias is not None:
                new["attention_mask"] = bias
        elif self.site.kind == "cross":
            text = text_length(kwargs)
            if kwargs.get("ip_adapter_masks") is not None and queries.shape[1] < x.shape[1]:
                raise ValueError(
                    f"{self.site.name} was given masks of an IP-Adapter, which merged tokens cannot follow; leave "
                    '"cross" out of where\'s module='
                )
        keys = queries.shape[1] if context is None else context.shape[1]
        alike = self.job.alike(x, block.forward) if planned else None
        sharing = (len(x) // alike.inputs if alike else 1) if planned else 0
        self.seen = Seen(block.grid, x.shape[1], queries.shape[1], keys, text, sharing)
        if args:
            return (queries, *args[1:]), {**kwargs, **new}
        return args, {**kwargs, **new, "hidden_states": queries}

    def after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        plan: Plan | None = self.local.plan
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

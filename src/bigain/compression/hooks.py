"""The hooks of one site: fewer tokens go in, all of them come out."""

import threading
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.compression.attachment import Attachment
from bigain.compression.correction import Correction, group_means
from bigain.models.probe import BlockCall, ForwardState, Probe, correction_of
from bigain.models.rows import RowGroups, SiteCache
from bigain.models.site import Site, site_flops
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Identity, Plan


class SiteTrace(NamedTuple):
    """What a site did in its last call: tokens, queries and keys of one row, its grid, and the rows of a plan."""

    grid: Grid
    tokens: int
    queries: int
    keys: int
    context: int  # tokens of the text that cross-attention looks at
    sharing: int  # rows of the batch for each plan that was made here; 0 if it was made elsewhere
    means: float  # mean rows for each row of the batch, computed here for the correction


class SiteHook:
    """The two hooks of one site: merge the tokens before, unmerge them after.

    `attachments` are all that act here; a pass has at most one of them on. There may be none: without hooks, compilers
    would treat the site as a copy of another one.
    """

    def __init__(self, site: Site, probe: Probe) -> None:
        self.site = replace(site, module=nn.Identity())  # a copied model must not carry the original's module
        self.probe = probe
        self.attachments: tuple[Attachment, ...] = ()
        # tensors: one graph serves all sites, and TorchInductor gets hashes of constants wrong
        with torch.inference_mode(False):
            self.number = torch.tensor(site.index, device="cpu")
            self.zero = torch.zeros(1, dtype=torch.int64, device="cpu")
        self.trace: SiteTrace | None = None
        self.local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, local=threading.local())

    def attach(self, module: nn.Module) -> None:
        module.register_forward_hook(self.after)
        module.register_forward_pre_hook(self.before, with_kwargs=True)

    @property
    def attachment(self) -> Attachment | None:
        """What is attached here now."""
        return next((attachment for attachment in self.attachments if not attachment.removed), None)

    def _acting(self, state: ForwardState) -> Attachment | None:
        """What was switched on here when the pass began."""
        for attachment in self.attachments:
            if attachment.key in state.active:
                return attachment
        return None

    def before(self, module: Any, args: Any, kwargs: Any = None) -> Any:
        self.local.plan = self.local.correction = self.local.observed = None
        block = self.probe.current()
        # without kwargs torch calls a hook that another thread is just putting on or taking off
        attachment = None if block is None or kwargs is None else self._acting(block.state)
        if attachment is None or block is None:
            return None
        x = args[0] if args else kwargs["hidden_states"]
        self._check_input(x, block)
        if self.zero.device != x.device and not torch.compiler.is_compiling():
            self.number, self.zero = self.number.to(x.device), self.zero.to(x.device)
        observed = bool(attachment.observers) and not torch.compiler.is_compiling()
        if observed:
            attachment.notify("begin", self, block, x, None)
        groups = attachment.row_groups(x, block.state)
        plain = {key: value for key, value in kwargs.items() if key != "hidden_states"}
        joined, own, correction, dense = x, plain, None, None
        if attachment.correct and groups is not None:
            cell = block.state.next_cache(correction_of(attachment.key))
            correction, joined, own = self._correction(module, groups, cell, x, plain)
            dense = correction.dense
        plan, planned = attachment.plan(self, block, x, dense)
        if observed:
            attachment.notify("planned", self, block, x, plan)
        if isinstance(plan, Identity):  # nothing to correct
            joined, own, correction = x, plain, None
        elif groups is not None and dense is not None:
            plan = attachment.joined(block, plan, groups)
        self.local.plan, self.local.correction = plan, correction
        queries, context = plan.queries(joined), plan.context(joined)
        text = 0
        if self.site.kind == "self":
            own |= self._self_attention(module, own, context, plan.key_bias(joined))
        elif self.site.kind == "cross":
            text = text_length(own)
            self._check_cross(own, queries.shape[1] < x.shape[1])
        keys = queries.shape[1] if context is None else context.shape[1]
        shared = x.shape[0] // groups.inputs if groups and attachment.operator.data_dependent else 1
        means = joined.shape[0] / x.shape[0] - 1 if joined is not x else 0.0
        self.trace = SiteTrace(block.grid, x.shape[1], queries.shape[1], keys, text, shared if planned else 0, means)
        if means:
            self._weigh(attachment, module)
        if observed:
            self.local.observed = attachment, block, x
            attachment.notify("merged", self, block, x, plan)
        return (queries, *args[1:]), own

    def _correction(
        self, module: Any, groups: RowGroups, cell: SiteCache, x: Tensor, kwargs: dict[str, Any]
    ) -> tuple[Correction, Tensor, dict[str, Any]]:
        """The correction of this call, and its input and arguments, with the mean rows where it is made now."""
        if cell.correction is not None:
            return Correction(groups, cell, None), x, kwargs
        means, own = group_means(x, groups), dict(kwargs)
        if self.site.kind == "cross":
            text = correctable_text(self.site.name, kwargs)
            own["encoder_hidden_states"] = group_means(text, groups)
            kwargs = {**kwargs, "encoder_hidden_states": torch.cat([text, own["encoder_hidden_states"]])}
        return Correction(groups, cell, module.forward(means, **own)), torch.cat([x, means]), kwargs

    def _weigh(self, attachment: Attachment, module: nn.Module) -> None:
        """Compare, once, what a correction costs with what is saved."""
        trace = self.trace
        if trace is None or attachment.weighed or torch.compiler.is_compiling():
            return
        site = replace(self.site, module=module)
        dense = site_flops(site, trace.tokens, trace.context or trace.tokens)
        attachment.weigh(dense, site_flops(site, trace.queries, trace.context or trace.keys), trace.means)

    def _check_input(self, x: Tensor, block: BlockCall) -> None:
        if x.shape[:2] != block.x.shape[:2]:
            raise RuntimeError(
                f"{self.site.name} got {tuple(x.shape[:2])} rows and tokens of its block's {tuple(block.x.shape[:2])}; "
                "chunked feed-forward cannot be compressed: switch chunking off, or leave the module out with where="
            )

    def _check_cross(self, kwargs: dict[str, Any], shorter: bool) -> None:
        if kwargs.get("ip_adapter_masks") is not None and shorter:
            raise ValueError(
                f'{self.site.name} got IP-Adapter masks, which do not fit merged tokens; leave "cross" out of module='
            )

    def _self_attention(
        self, module: Any, kwargs: dict[str, Any], context: Tensor | None, bias: Tensor | None
    ) -> dict[str, Any]:
        """The arguments that give self-attention other keys, or weights for them."""
        if kwargs.get("attention_mask") is not None:
            raise ValueError(f"{self.site.name} got an attention mask, which does not fit compressed tokens")
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
        if plan is None:
            return None
        correction: Correction | None = self.local.correction
        self.local.plan = self.local.correction = None
        if torch.compiler.is_compiling() or getattr(self.local, "observed", None) is None:
            return unmerged(plan, correction, output)
        (attachment, block, x), self.local.observed = self.local.observed, None
        attachment.notify("computed", self, block, x, plan)
        whole = unmerged(plan, correction, output)
        attachment.notify("unmerged", self, block, x, plan)
        return whole


def unmerged(plan: Plan, correction: Correction | None, output: Tensor) -> Tensor:
    whole = plan.unmerge(output)
    return whole if correction is None else correction.apply(whole)


def correctable_text(name: str, kwargs: dict[str, Any]) -> Tensor:
    """The text that cross-attention gets, if its mean over a group means something: (B, L, C)."""
    text = kwargs.get("encoder_hidden_states")
    if not isinstance(text, Tensor) or not text.is_floating_point() or kwargs.get("attention_mask") is not None:
        raise ValueError(
            f'{name} gets masked text or the images of an IP-Adapter, which have no mean over a group; leave "cross" '
            "out of where's module=, or set correct=False"
        )
    return text


def check_processor(name: str, attention: Any) -> None:
    """Perturbed-attention guidance computes self-attention itself and ignores keys and masks passed to it."""
    if type(attention.processor).__name__.startswith("PAG"):
        raise ValueError(
            f"{name} runs perturbed-attention guidance, which supports neither key-value operators nor weighted=True; "
            "use another operator, or leave the layer out with where="
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

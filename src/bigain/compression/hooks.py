"""The hooks of one site: fewer tokens go in, all of them come out."""

import threading
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.compression.attachment import Attachment
from bigain.compression.correction import Correction, group_means
from bigain.compression.entry import Entry, Feed, after_text, check_cached, enter_cross, enter_self, mean_text
from bigain.compression.joint import enter_joint, mean_arguments, part_hooks, text_first, with_means
from bigain.models.costs import site_flops
from bigain.models.probe import BlockCall, ForwardState, Probe, correction_of
from bigain.models.rows import RowGroups, SiteCache
from bigain.models.site import Site
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Identity, Plan
from bigain.tokens.soft import SoftAssignment


class SiteTrace(NamedTuple):
    """What a site did in its last call: tokens, queries and keys of one row, its grid, and the rows of a plan."""

    grid: Grid
    tokens: int
    queries: int
    keys: int
    text: int  # tokens of the text that cross-attention or joint attention looks at
    sharing: int  # rows of the batch for each plan that was made here; 0 if it was made elsewhere
    means: float  # mean rows for each row of the batch, computed here for the correction
    mapping: int = 0  # FLOPs of merging and unmerging one row, where these are matrix products

    def flops(self, site: Site) -> tuple[int, int]:
        """FLOPs of one row before and after."""
        if site.kind == "cross":
            before, after = site_flops(site, self.tokens, self.text), site_flops(site, self.queries, self.text)
        else:
            before = site_flops(site, self.tokens, self.tokens, self.text)
            after = site_flops(site, self.queries, self.keys, self.text)
        return before, after + self.mapping


class Entered(NamedTuple):
    """What the hook after a site must know of what the hook before it did."""

    plan: Plan
    correction: Correction | None
    first: int  # tokens of text before the image
    feed: Feed | None


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
        for part, hook in part_hooks(self, self.site, module):
            hook.attach(part)
        module.register_forward_hook(self.after)
        module.register_forward_pre_hook(self.before, with_kwargs=True)

    def feed(self) -> Feed | None:
        """What the parts of the attention get that runs in this thread."""
        entered: Entered | None = getattr(self.local, "entered", None)
        return None if entered is None else entered.feed

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
        self.local.entered = self.local.observed = None
        block = self.probe.current()
        # without kwargs torch calls a hook that another thread is just putting on or taking off
        attachment = None if block is None or kwargs is None else self._acting(block.state)
        if attachment is None or block is None:
            return None
        x = args[0] if args else kwargs["hidden_states"]
        first = text_first(self.site.stream, x.shape[1], block.grid.tokens)
        self._check_input(x, first, block)
        image = x[:, first:]
        if self.zero.device != x.device and not torch.compiler.is_compiling():
            self.number, self.zero = self.number.to(x.device), self.zero.to(x.device)
        observed = bool(attachment.observers) and not torch.compiler.is_compiling()
        if observed:
            attachment.notify("begin", self, block, image, None)
        groups = attachment.row_groups(x, block.state)
        plain = {key: value for key, value in kwargs.items() if key != "hidden_states"}
        if attachment.operator.reduces_queries or attachment.correct:
            check_cached(self.site.name, module)
        joined, own, correction, dense = x, plain, None, None
        if attachment.correct and groups is not None:
            cell = block.state.next_cache(correction_of(attachment.key))
            correction, joined, own = self._correction(module, groups, cell, x, first, plain)
            dense = None if correction.dense is None else correction.dense[0]
        plan, planned = attachment.plan(self, block, image, dense)
        if observed:
            attachment.notify("planned", self, block, image, plan)
        if isinstance(plan, Identity):  # nothing to correct
            joined, own, correction = x, plain, None
        elif groups is not None and dense is not None:
            plan = attachment.joined(block, plan, groups)
        entry = self._enter(module, plan, joined, first, own)
        self.local.entered = Entered(plan, correction, first, entry.feed)
        shared = x.shape[0] // groups.inputs if groups and attachment.operator.data_dependent else 1
        means = joined.shape[0] / x.shape[0] - 1 if joined is not x else 0.0
        numbers = image.shape[1], entry.queries, entry.keys, entry.text
        mapping = plan.flops(x.shape[-1]) if isinstance(plan, SoftAssignment) else 0
        self.trace = SiteTrace(block.grid, *numbers, shared if planned else 0, means, mapping)
        if means:
            self._weigh(attachment, module)
        if observed:
            self.local.observed = attachment, block, image
            attachment.notify("merged", self, block, image, plan)
        return (entry.hidden, *args[1:]), entry.kwargs

    def _enter(self, module: Any, plan: Plan, x: Tensor, first: int, kwargs: dict[str, Any]) -> Entry:
        """The tokens and arguments that the module gets."""
        site = self.site
        if site.kind == "mlp":
            merged = plan.queries(x[:, first:])
            return Entry(after_text(x, first, merged), kwargs, None, merged.shape[1], merged.shape[1], first)
        if site.stream is not None:
            return enter_joint(self, module, plan, x, first, kwargs)
        return (enter_self if site.kind == "self" else enter_cross)(site.name, module, plan, x, kwargs)

    def _correction(
        self, module: Any, groups: RowGroups, cell: SiteCache, x: Tensor, first: int, kwargs: dict[str, Any]
    ) -> tuple[Correction, Tensor, dict[str, Any]]:
        """The correction of this call, and its input and arguments, with the mean rows where it is made now."""
        if cell.correction is not None:
            return Correction(groups, cell, None), x, kwargs
        means = group_means(x, groups)
        text: dict[str, Tensor] = {}
        if self.site.kind == "cross":
            text = mean_text(self.site.name, kwargs, groups)
        elif self.site.kind == "self" and self.site.stream is not None:
            text = mean_arguments(self.site.name, kwargs, groups)
        dense = module.forward(means, **(kwargs | text))
        joined = torch.cat([x, means])
        return Correction(groups, cell, parts_of(dense, first)), joined, with_means(kwargs, text, x.shape[0])

    def _weigh(self, attachment: Attachment, module: nn.Module) -> None:
        """Compare, once, what a correction costs with what is saved."""
        trace = self.trace
        if trace is None or attachment.weighed or torch.compiler.is_compiling():
            return
        attachment.weigh(*trace.flops(replace(self.site, module=module)), trace.means)

    def _check_input(self, x: Tensor, first: int, block: BlockCall) -> None:
        tokens = block.grid.tokens if first else block.x.shape[1]
        if x.shape[0] != block.x.shape[0] or x.shape[1] != tokens + first or first < 0:
            raise RuntimeError(
                f"{self.site.name} got {tuple(x.shape[:2])} rows and tokens of its block's {tuple(block.x.shape[:2])}; "
                "chunked feed-forward cannot be compressed: switch chunking off, or leave the module out with where="
            )

    def after(self, module: nn.Module, args: Any, output: Any) -> Any:
        entered: Entered | None = getattr(self.local, "entered", None)
        if entered is None:
            return None
        self.local.entered = None
        if torch.compiler.is_compiling() or getattr(self.local, "observed", None) is None:
            return unmerged(entered, output)
        (attachment, block, x), self.local.observed = self.local.observed, None
        attachment.notify("computed", self, block, x, entered.plan)
        whole = unmerged(entered, output)
        attachment.notify("unmerged", self, block, x, entered.plan)
        return whole


def parts_of(output: Any, first: int) -> tuple[Tensor, ...]:
    """A module's output as its image part and, if there is one, its text part."""
    if isinstance(output, tuple):
        return output
    return (output[:, first:], output[:, :first]) if first else (output,)


def unmerged(entered: Entered, output: Any) -> Any:
    """The output with all image tokens, corrected, in the form in which the module gave it."""
    image, *others = parts_of(output, entered.first)
    parts = (entered.plan.unmerge(image), *others)
    if entered.correction is not None:
        parts = entered.correction.apply(parts)
    if isinstance(output, tuple):
        return parts
    return torch.cat([parts[1], parts[0]], 1) if entered.first else parts[0]

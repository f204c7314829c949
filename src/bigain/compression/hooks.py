"""The hooks of one site: fewer tokens go in, all of them come out."""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.compression.attachment import Attachment
from bigain.compression.correction import Correction, first_rows, group_means
from bigain.compression.entry import (
    PURPOSE,
    Entry,
    Feed,
    KeyValue,
    after_text,
    check_cached,
    enter_cross,
    enter_self,
    mean_text,
)
from bigain.compression.joint import enter_joint, mean_arguments, part_hooks, text_first, with_means
from bigain.compression.split import join_rows, take_rows
from bigain.models.costs import site_flops
from bigain.models.hooks import HookOwner, ThreadLocal
from bigain.models.probe import BlockCall, Probe
from bigain.models.rows import RowGroups, SiteCache
from bigain.models.site import Site
from bigain.models.stand_in import SUBSET, StandIn, stand_in_of, standing_in
from bigain.models.state import ForwardState, correction_of
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


class SiteHook(ThreadLocal, HookOwner):
    """The two hooks of one site: merge the tokens before, unmerge them after.

    `attachments` are all that act here; a pass has at most one of them on. There may be none: without hooks, compilers
    would treat the site as a copy of another one.
    """

    purpose = PURPOSE

    def __init__(self, site: Site, probe: Probe) -> None:
        super().__init__()
        self.site = replace(site, module=nn.Identity())  # a copied model must not carry the original's module
        self.probe = probe
        self.attachments: tuple[Attachment, ...] = ()
        # tensors: one graph serves all sites, and TorchInductor gets hashes of constants wrong
        with torch.inference_mode(False):
            self.number = torch.tensor(site.index, device="cpu")
            self.zero = torch.zeros(1, dtype=torch.int64, device="cpu")
        self.traces: dict[str, SiteTrace] = {}  # of the last call of each attachment, by its key
        self.stand_in: StandIn | None = None  # computes something else in the module's place

    def attach(self, module: nn.Module) -> None:
        for part, hook in part_hooks(self, self.site, module):
            hook.attach(part)
        module.register_forward_hook(self.after)
        # what stands in for the module gets the merged tokens
        module.register_forward_pre_hook(self.before, with_kwargs=True, prepend=stand_in_of(module) is not None)

    def needed(self) -> bool:
        self.attachments = tuple(attachment for attachment in self.attachments if not attachment.removed)
        return bool(self.attachments)

    def leave(self, module: nn.Module) -> None:
        if isinstance(module.__dict__.get("to_kv"), KeyValue):
            del module.__dict__["to_kv"]

    def feed(self) -> Feed | None:
        """What the parts of the attention get that runs in this thread."""
        if self.stand_in is not None and self.stand_in.done():
            return None
        entered: Entered | None = getattr(self.local, "entered", None)
        feed = None if entered is None else entered.feed
        return feed if feed is None or self.stand_in is None or SUBSET.rows is None else feed.of_rows(SUBSET.rows)

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
        self.local.entered = self.local.observed = self.local.split = None
        block = self.probe.current()
        # without kwargs torch calls a hook that another thread is just putting on or taking off
        attachment = None if block is None or kwargs is None else self._acting(block.state)
        if attachment is None or block is None:
            return None
        if block.state.parts and any(one.key in block.state.parts for one in self.attachments):
            return self._split(module, block, args, kwargs)
        return self._compressed(module, attachment, block, args, kwargs)

    def _compressed(self, module: Any, attachment: Attachment, block: BlockCall, args: Any, kwargs: Any) -> Any:
        """The arguments of the module for fewer tokens; what `after` must know of it waits in this thread."""
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
        trace = SiteTrace(block.grid, *numbers, shared if planned else 0, means, mapping)
        self.traces[attachment.key] = trace
        if means:
            self._weigh(attachment, module, trace)
        if self.stand_in is not None:
            self.stand_in.expect(rows_of(x, joined, groups))
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
        dense = standing_in(self.stand_in, module, means, kwargs | text, first_rows(groups))
        joined = torch.cat([x, means])
        return Correction(groups, cell, parts_of(dense, first)), joined, with_means(kwargs, text, x.shape[0])

    def _split(self, module: Any, block: BlockCall, args: Any, kwargs: Any) -> Any:
        """Each row as its own timestep says: the rows of one setting after the other, the last in the call itself."""
        check_cached(self.site.name, module)
        if self.stand_in is not None and self.stand_in.acting() is not None:
            raise ValueError(
                f"{self.site.name} is pruned, and when= asks for other tokens in some rows of this batch; leave when "
                "out, or call the model with one timestep for all rows"
            )
        x = args[0] if args else kwargs["hidden_states"]
        rest = {name: value for name, value in kwargs.items() if name != "hidden_states"}
        parts = [(one, block.state.parts[one.key]) for one in self.attachments if one.key in block.state.parts]
        done: list[tuple[Tensor, Any]] = []
        covered = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
        for _, state in parts:
            covered[state.rows] = True
        dense = (~covered).nonzero()[:, 0]
        if dense.shape[0]:
            done.append((dense, module.forward(x[dense], *args[1:], **take_rows(rest, dense, x.shape[0]))))
        for number, (attachment, state) in enumerate(parts, 1):
            rows: Any = state.rows
            call = block._replace(x=block.x[rows], state=state)
            given = (x[rows], *args[1:]), take_rows(rest, rows, x.shape[0])
            entered = self._compressed(module, attachment, call, *given)
            if number == len(parts):
                self.local.split = [*done, (rows, None)]
                return entered
            done.append((rows, self._left(module.forward(*entered[0], **entered[1]))))

    def _weigh(self, attachment: Attachment, module: nn.Module, trace: SiteTrace) -> None:
        """Compare, once, what a correction costs with what is saved."""
        if attachment.weighed or torch.compiler.is_compiling():
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
        found, split = self._left(output), getattr(self.local, "split", None)
        if split is None:
            return found
        self.local.split = None
        return join_rows([*split[:-1], (split[-1][0], found)])

    def _left(self, output: Any) -> Any:
        """The output with all tokens, for what entered last."""
        entered: Any = self.local.entered
        self.local.entered = None
        if torch.compiler.is_compiling() or getattr(self.local, "observed", None) is None:
            return unmerged(entered, output)
        (attachment, block, x), self.local.observed = self.local.observed, None
        attachment.notify("computed", self, block, x, entered.plan)
        whole = unmerged(entered, output)
        attachment.notify("unmerged", self, block, x, entered.plan)
        return whole


def rows_of(x: Tensor, joined: Tensor, groups: RowGroups | None) -> Tensor | None:
    """Which rows of the batch the rows are that a module gets, where mean rows stand after them."""
    if groups is None or joined is x:
        return None
    return torch.cat([torch.arange(x.shape[0], device=groups.rows.device), first_rows(groups)])


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

"""What one call of `compress` does at its sites: an operator, its options, and the plans it makes."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bigain.compression.correction import enough_rows, group_means, join_plan
from bigain.compression.setting import Compression
from bigain.models.probe import BlockCall, Probe
from bigain.models.rows import RowGroups, take_groups
from bigain.models.site import Site
from bigain.models.stand_in import Attached
from bigain.models.state import ForwardState, correction_of
from bigain.operators.base import Call, Operator, spec
from bigain.tokens.constants import arange
from bigain.tokens.grid import Grid
from bigain.tokens.matching import unit
from bigain.tokens.plans import Plan, expand_plan


class SiteEvent(NamedTuple):
    """One step at a compressed site, for observers.

    `step` is "begin", "planned", "merged" (the module runs next), "computed" and "unmerged", in this order.
    """

    step: str
    site: Site
    grid: Grid
    tokens: Tensor  # (B, N, C) that the plan is made from
    plan: Any  # a Plan; None at "begin"


Observer = Callable[[SiteEvent], None]


class Attachment(Attached):
    """One call of `compress`: its setting, whether it is on, and its observers."""

    def __init__(self, compression: Compression, probe: Probe, key: str) -> None:
        super().__init__(probe, key)
        self.compression = compression
        self.operator: Operator = compression.operator
        self.reuse = compression.reuse
        self.groups = compression.groups
        self.correct = compression.correct
        self.when = compression.when
        self.warned = False
        self.weighed = False  # the cost of a correction against what is saved
        self.observers: tuple[Observer, ...] = ()

    @contextmanager
    def observed(self, observer: Observer) -> Iterator[None]:
        """Inside the `with` block, call `observer` at each step of each site."""
        before, self.observers = self.observers, (*self.observers, observer)
        try:
            yield
        finally:
            self.observers = before

    @torch.no_grad()
    def plan(self, hook: Any, block: BlockCall, x: Tensor, dense: Tensor | None = None) -> tuple[Plan, bool]:
        """The plan for a site, and whether it was just made: one per block, or per stage with reuse.

        `dense` (G, N, C) is the site's output for the mean rows, where a correction has computed it.
        """
        plans, key = block.stage_plans if self.reuse == "stage" else block.plans, self.key
        if key in plans:
            return plans[key], False
        tokens = self.tokens(block, x)
        if tokens.shape[1] != block.grid.tokens:
            raise RuntimeError(f"{hook.site.name} got {tokens.shape[1]} tokens, but its grid is {block.grid}")
        x, call = tokens.detach(), self.call(hook, block, tokens.shape[0])
        row_groups = self.row_groups(x, block.state) if self.operator.data_dependent else None
        if row_groups is None:
            plans[key] = self.operator.plan(x, call)
            return plans[key], True
        cell = block.state.next_cache(self.key)
        made = cell.plan is None
        if cell.plan is None:
            means = group_means(x, row_groups)
            tokens = means if dense is None else torch.cat([unit(means), unit(dense.detach())], -1)
            cell.plan = self.operator.plan(tokens, group_call(call, row_groups))
        plans[key] = expand_plan(cell.plan, row_groups.rows)
        return plans[key], made

    def joined(self, block: BlockCall, plan: Plan, row_groups: RowGroups) -> Plan:
        """The plan for the rows of a batch and the means of its groups, one for all sites that use the plan."""
        plans, key = block.stage_plans if self.reuse == "stage" else block.plans, correction_of(self.key)
        if key not in plans:
            plans[key] = join_plan(plan, row_groups)
        return plans[key]

    def tokens(self, block: BlockCall, x: Tensor) -> Tensor:
        """The tokens that plans are made from: the block's input, or the module's own."""
        return block.x if self.probe.family.metric == "block" else x

    def notify(self, step: str, hook: Any, block: BlockCall, x: Tensor, plan: Plan | None) -> None:
        for observer in self.observers:
            observer(SiteEvent(step, hook.site, block.grid, self.tokens(block, x), plan))

    def call(self, hook: Any, block: BlockCall, rows: int) -> Call:
        """The operator's `Call`; a stochastic one gets the keys of the inputs, or the number of the pass."""
        state, row_groups = block.state, block.state.row_groups
        key, member = hook.zero, arange(rows, hook.zero.device) if state.rows is None else state.rows
        if self.operator.stochastic and row_groups is not None and row_groups.keys is not None:
            key = row_groups.keys.index_select(0, row_groups.rows)
            member = torch.zeros_like(key) if row_groups.members is None else row_groups.members
        elif self.operator.stochastic and state.pass_index is not None:
            key = state.pass_index
        return Call(block.grid, state.t, key, hook.number, member)

    def row_groups(self, x: Tensor, state: ForwardState) -> RowGroups | None:
        """Which rows belong together, or None where each stands for itself."""
        if self.groups is None:
            return None
        if self.groups == "classes" and (state.row_groups is None or state.row_groups.guidance):
            return None
        if self.groups == "input" or self.groups == "classes":
            if state.row_groups is not None and state.row_groups.rows.shape[0] != x.shape[0]:
                expected = len(state.row_groups.rows)
                raise RuntimeError(f"same_input declares {expected} rows, but the batch has {len(x)}")
            if state.row_groups is None and x.shape[0] > 1:
                self._warn_undeclared()
            return state.row_groups
        size, batch = 2 if self.groups == "cfg" else self.groups, state.batch or x.shape[0]
        if batch % size:
            why = "; without guidance (guidance_scale=1, guess mode) leave groups out"
            raise ValueError(
                f"groups={self.groups!r} needs a batch size divisible by {size}, got {batch}"
                + (why if self.groups == "cfg" else "")
            )
        number = arange(batch, x.device)
        count = batch // size
        groups = RowGroups(number % count if self.groups == "cfg" else number // size, count)
        return groups if state.rows is None else take_groups(groups, state.rows)

    def weigh(self, before: int, after: int, means: float) -> None:
        """Warn once, in eager mode, if a correction costs more than compression saves: FLOPs of one row."""
        self.weighed = True
        if after + means * (before + after) >= before:
            enough = enough_rows(before + after, before - after)
            advice = f"groups of {enough} rows or more would pay" if enough else "a higher ratio may"
            saves = f"{spec(self.operator)} saves with groups of {round(1 / means)} rows"
            warnings.warn(f"correct=True costs more than {saves}; {advice}", stacklevel=2)

    def _warn_undeclared(self) -> None:
        """Warn once: nothing is shared where no caller declares rows, as in a diffusers pipeline."""
        if not self.warned and not torch.compiler.is_compiling():
            self.warned = True
            warnings.warn(
                'groups="input" shares no plan here: only `DiffusionClassifier` and `bigain.generate` declare rows '
                'with the same noisy input. For a pipeline with guidance use groups="cfg"',
                stacklevel=2,
            )


def group_call(call: Call, row_groups: RowGroups) -> Call:
    """The operator's `Call` for groups: random patterns depend on the first row of a group."""

    def first(values: Tensor) -> Tensor:
        return values.new_zeros(row_groups.inputs).scatter_reduce(
            0, row_groups.rows, values, "amin", include_self=False
        )

    if call.draw_key is None or call.member is None:
        return call._replace(t=None)
    key = call.draw_key if call.draw_key.shape[0] == 1 else first(call.draw_key)
    return call._replace(t=None, draw_key=key, member=first(call.member))

"""What one call of `compress` does at its sites: an operator, its options, and the plans it makes."""

import warnings
from typing import Any, Literal

import torch
from torch import Tensor

from bigain.backbones.probe import BlockCall, Pass, Probe
from bigain.backbones.rows import Alike
from bigain.operators.base import Call, Operator
from bigain.tokens.constants import numbers
from bigain.tokens.plan import Plan, share
from bigain.tokens.precision import sum_dtype

Groups = int | Literal["halves", "input"] | None


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
        """For passes that begin from now on; once it is removed, another one may have its key."""
        if not self.removed:
            self.probe.switch(self.key, on)

    @torch.no_grad()
    def plan(self, hook: Any, block: BlockCall, x: Tensor) -> tuple[Plan, bool]:
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

    def call(self, hook: Any, block: BlockCall, rows: int) -> Call:
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

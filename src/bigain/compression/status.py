"""What compression did at each site, and what it saved."""

from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from bigain.models.costs import site_width
from bigain.models.site import Site
from bigain.models.windows import Window
from bigain.operators.base import Call, Operator
from bigain.tokens.grid import Grid


class SiteStatus(NamedTuple):
    """One site, for one sample of the last call; numbers are 0 if it has not run."""

    name: str
    grid: Grid | None
    tokens: int
    queries: int
    keys: int
    flops_before: int
    flops_after: int
    ran: bool
    when: Window | None = None  # the timesteps in which it acts; None means all


class Status(list[SiteStatus]):
    """One `SiteStatus` per site; printed, a table."""

    @property
    def flops_before(self) -> int:
        return sum(row.flops_before for row in self)

    @property
    def flops_after(self) -> int:
        return sum(row.flops_after for row in self)

    def __str__(self) -> str:
        windows = any(row.when for row in self)
        head = ("site", "grid", "tokens", "queries", "keys", "MFLOPs before", "after", "ran")
        lines = [(*head, "timesteps") if windows else head]
        for row in self:
            numbers = (str(row.tokens), str(row.queries), str(row.keys)) if row.ran else ("-", "-", "-")
            flops = (f"{row.flops_before / 1e6:.1f}", f"{row.flops_after / 1e6:.1f}") if row.ran else ("-", "-")
            when = ("{}-{}".format(*row.when) if row.when else "all",) if windows else ()
            lines.append((row.name, str(row.grid or "-"), *numbers, *flops, "yes" if row.ran else "no", *when))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def site_status(site: Site, operator: Operator, trace: Any) -> SiteStatus:
    if trace is None:
        return SiteStatus(site.name, None, 0, 0, 0, 0, 0, ran=False)
    before, after = trace.flops(site)
    after = round(after + trace.means * (after + before))  # each mean row once compressed, once dense
    if trace.sharing:
        width = site_width(site) * (2 if trace.means else 1)  # a corrected site plans on its input and output
        after += plan_flops(operator, trace.grid, width) // trace.sharing
    return SiteStatus(site.name, trace.grid, trace.tokens, trace.queries, trace.keys, before, after, ran=True)


PLANS: dict[tuple[type[Operator], str, Grid, int], int] = {}  # FLOPs that were counted before


def plan_flops(operator: Operator, grid: Grid, width: int) -> int:
    """FLOPs of making a plan for one sample, counted on the meta device."""
    key = (type(operator), repr(operator), grid, width)
    if key not in PLANS:
        meta = torch.device("meta")
        call = Call(grid, torch.zeros(1, device=meta), torch.zeros(1, dtype=torch.int64, device=meta))
        with FlopCounterMode(display=False) as counter:
            operator.plan(torch.empty((1, grid.tokens, width), device=meta), call)
        PLANS[key] = int(counter.get_total_flops())
    return PLANS[key]

"""What was taken out of each site, and what it saves."""

from collections.abc import Sequence
from typing import NamedTuple

from bigain.models.costs import site_flops
from bigain.models.site import Site
from bigain.pruning.trajectory import Stages


class SitePruning(NamedTuple):
    """One site: its heads or channels, how many of them each stage keeps, FLOPs of one sample."""

    name: str
    kind: str
    groups: int
    kept: tuple[int, ...]
    flops_before: int
    flops_after: tuple[int, ...]  # by stage


class PruneStatus(list[SitePruning]):
    """One `SitePruning` a site; printed, a table."""

    def __init__(self, rows: Sequence[SitePruning], stages: Stages) -> None:
        super().__init__(rows)
        self.stages = stages

    @property
    def flops_before(self) -> int:
        """FLOPs of all attention and MLPs in a pass of one sample."""
        return sum(row.flops_before for row in self)

    @property
    def flops_after(self) -> tuple[int, ...]:
        """The same when pruned, by stage."""
        return tuple(sum(row.flops_after[i] for row in self) for i in range(len(self.stages.stages)))

    @property
    def saved(self) -> float:
        """The share of these FLOPs that is saved, as a mean over timesteps."""
        mean = sum(share * after for share, after in zip(self.stages.shares, self.flops_after, strict=True))
        return 1 - mean / self.flops_before

    def __str__(self) -> str:
        spans = [f"t {stage.first}-{stage.last - 1}" for stage in self.stages.stages]
        lines = [("site", "has", *(f"keeps at {span}" for span in spans), "MFLOPs before", *(f"{s}" for s in spans))]
        for row in self:
            unit = "channels" if row.kind == "mlp" else "heads"
            flops = (f"{value / 1e6:.1f}" for value in (row.flops_before, *row.flops_after))
            lines.append((row.name, f"{row.groups} {unit}", *map(str, row.kept), *flops))
        total = (f"{value / 1e6:.1f}" for value in (self.flops_before, *self.flops_after))
        lines.append(("all", "", *("" for _ in spans), *total))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def site_cost(site: Site, text: int) -> int:
    """FLOPs of a site for one row at the model's own size, with so many tokens of text."""
    if site.kind == "cross":
        return site_flops(site, site.tokens, text)
    takes = site.kind == "self" and site.stream is not None and site.stream.text == "apart"
    first = site.stream is not None and site.stream.text == "first"
    return site_flops(site, site.tokens, site.tokens, text if takes or first else 0)


def dummy_flops(site: Site) -> int:
    """What the module itself still computes where something stands in for it: one token, no rows of an MLP."""
    if site.kind == "mlp":
        return 0
    joint = site.kind == "self" and site.stream is not None and site.stream.text == "apart"
    return site_flops(site, 1, 1, int(joint))

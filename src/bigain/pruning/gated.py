"""Skipped sites: where a gate is closed, a site gives the output of its last pass.

What is reused is the output of the attention or MLP, the branch beside the residual stream; the stream itself goes on.
A trajectory is a sequence of passes with falling timesteps in one thread. A pass whose timestep does not fall begins a
new one, in which all gates of the first pass are open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from bigain.compression.attach import site_hooks
from bigain.models.family import family_of
from bigain.models.hooks import ThreadLocal
from bigain.models.stand_in import attach_stand_ins
from bigain.pruning.gates import GateScores, share_open
from bigain.pruning.handle import Handle
from bigain.pruning.status import dummy_flops


class Step(NamedTuple):
    """The step of a pass, and whether it begins a trajectory."""

    number: int
    first: bool


class StepReader(ThreadLocal):
    """Reads the step off the timestep of a pass, which all its rows must share."""

    def __init__(self, scores: GateScores) -> None:
        super().__init__()
        self.scores = scores

    def __call__(self, t: Tensor | None) -> Step:
        if t is None or t.is_meta:
            raise ValueError("a model with gates needs the timestep of each pass")
        values = t.tolist()
        if len(set(values)) > 1:
            raise ValueError(
                "a skipped block gives its output of the step before, so all rows of a pass must have one timestep, "
                f"got {min(values):g} to {max(values):g}; classify with bigain.pruning.SequentialClassifier"
            )
        last: tuple[float, int] = getattr(self.local, "last", (-1.0, 0))
        first = values[0] >= last[0] or len(values) != last[1]
        self.local.last = (values[0], len(values))
        return Step(self.scores.step(values[0]), first)

    def reset(self) -> None:
        """Let the next pass of this thread begin a trajectory."""
        self.local.last = (-1.0, 0)


class GatedSite(ThreadLocal):
    """Gives what its site gave last, where the gate of the step is closed."""

    def __init__(self, gates: Sequence[bool]) -> None:
        super().__init__()
        self.gates = tuple(gates)

    def __call__(self, module: nn.Module, x: Tensor, kwargs: Any, reading: Step, rows: Any) -> Any:
        if reading.first or self.gates[reading.number]:
            return None
        return self.local.kept

    def keep(self, output: Any) -> None:
        self.local.kept = output


@dataclass(frozen=True, eq=False)
class Gated:
    """A method with the gates of its target, which `attach` puts on a model of the same configuration."""

    method: Any
    scores: GateScores
    gates: tuple[tuple[bool, ...], ...]
    text_tokens: int

    @property
    def closed_sites(self) -> list[int]:
        """Sites that are skipped at least once."""
        return [i for i in range(len(self.scores.sites)) if not all(row[i] for row in self.gates)]

    def __len__(self) -> int:
        return len(self.closed_sites)

    def attach(self, network: nn.Module) -> Handle:
        found = {site.name: site for site in family_of(network).sites(network)}
        missing = [name for name in self.scores.sites if name not in found]
        if missing:
            raise ValueError(f"{type(network).__name__} has no {missing[0]}; these gates are of {self.scores.model}")
        merged = [hook for hook in site_hooks(network) if hook.attachment and not can_join(hook.attachment)]
        if merged:
            raise ValueError(
                f"{merged[0].site.name} merges other tokens in each step, so no output of the last one fits"
            )
        replacements = {self.scores.sites[i]: GatedSite([row[i] for row in self.gates]) for i in self.closed_sites}
        reader = StepReader(self.scores)
        attached = attach_stand_ins(network, list(found.values()), dict(replacements), reader)
        attached.keeps_steps = True
        return Handle(network, attached, self, reader)

    @property
    def shares(self) -> tuple[float, ...]:
        """Steps count alike."""
        return (1 / len(self.gates),) * len(self.gates)

    def number(self, t: float) -> int:
        return self.scores.step(t)

    def costs(self, network: nn.Module, count: Callable[[], int]) -> list[int]:
        """FLOPs of a pass in each step, from those of a whole one: `count` counts them with no gate closed."""
        dense, dummies = count(), [dummy_flops(site) for site in family_of(network).sites(network)]
        saved = [cost - dummy for cost, dummy in zip(self.scores.flops, dummies, strict=True)]
        return [dense - sum(s for s, is_open in zip(saved, row, strict=True) if not is_open) for row in self.gates]

    def status(self, network: nn.Module) -> "GateStatus":
        return GateStatus(self.scores, self.gates)


def can_join(attachment: Any) -> bool:
    """Whether what is compressed leaves the queries, and with them the output, in their places."""
    return not attachment.operator.reduces_queries and not attachment.correct


class GateStatus:
    """Which sites run in which step; printed, a map with a column for each step."""

    def __init__(self, scores: GateScores, gates: Sequence[Sequence[bool]]) -> None:
        self.scores, self.gates = scores, gates

    @property
    def saved(self) -> float:
        """The share of the FLOPs of all sites that is saved over a trajectory."""
        return 1 - share_open(self.gates, self.scores.flops)

    def __str__(self) -> str:
        width = max(map(len, self.scores.sites))
        names = enumerate(self.scores.sites)
        lines = [f"{name.ljust(width)}  " + "".join("#" if row[i] else "." for row in self.gates) for i, name in names]
        span = f"t {self.scores.timesteps[0]:g} to {self.scores.timesteps[-1]:g}"
        return "\n".join([f"{'site'.ljust(width)}  {span}, # runs", *lines])

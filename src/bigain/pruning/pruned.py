"""What pruning found, as data: it can be attached to any model of the same configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.models.stand_in import Replacement, attach_stand_ins, only_rows
from bigain.pruning.handle import Handle
from bigain.pruning.parts import Prunable, check_prunable, smaller
from bigain.pruning.second_order import Removal
from bigain.pruning.status import PruneStatus, SitePruning, dummy_flops
from bigain.pruning.trajectory import Stages


class Reading(NamedTuple):
    """The stage of all rows of a pass, or that of each row where they differ."""

    stage: int | None
    rows: tuple[int, ...] = ()

    def groups(self, rows: Tensor | None, count: int) -> list[tuple[int, list[int]]]:
        """(stage, which of `count` rows); `rows` says which of the batch they are."""
        own = self.rows if rows is None else [self.rows[row] for row in rows.tolist()]
        if len(own) != count:
            raise RuntimeError(
                f"a pruned site got {count} rows of a batch of {len(self.rows)} with different timesteps"
            )
        return [(stage, [i for i, other in enumerate(own) if other == stage]) for stage in sorted(set(own))]


class StageReader:
    """Reads the stage of each row off the timesteps of a pass, or takes one `fixed` for all."""

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.fixed: int | None = None

    def __call__(self, t: Tensor | None) -> Reading:
        if self.fixed is not None:
            return Reading(self.fixed)
        if t is None or t.is_meta:
            what = "no timestep" if t is None else "a timestep without a value (meta device)"
            raise ValueError(f"a pruned model got {what}; choose a stage with handle.at_stage(…)")
        found = tuple(self.stages.number(value) for value in t.tolist())
        return Reading(found[0]) if len(set(found)) == 1 else Reading(None, found)


class SmallerSite:
    """Computes each row of a site with the weights of its stage."""

    def __init__(self, part: Prunable, cuts: tuple[Removal | None, ...], module: nn.Module) -> None:
        self.part = replace(part, site=replace(part.site, module=nn.Identity()))
        self.cuts = cuts
        self.known = self._parts(module)
        self.modules = self._make(module)

    def _parts(self, module: nn.Module) -> list[nn.Module]:
        return [module.get_submodule(name) for name in (*self.part.first, *self.part.last)]

    def _make(self, module: nn.Module) -> list[nn.Module | None]:
        with torch.inference_mode(False), torch.no_grad():
            return [None if cut is None else smaller(self.part, module, cut.kept, cut.weights) for cut in self.cuts]

    def __call__(self, module: Any, x: Tensor, kwargs: dict[str, Any], reading: Reading, rows: Tensor | None) -> Any:
        self._refresh(module)
        if reading.stage is not None:
            own = self.modules[reading.stage]
            return None if own is None else own.forward(x, **kwargs)
        parts = reading.groups(rows, x.shape[0])
        groups = [(stage, torch.tensor(chosen, device=x.device)) for stage, chosen in parts]
        if all(self.modules[stage] is None for stage, _ in groups):
            return None
        outputs = []
        for stage, chosen in groups:
            with only_rows(chosen):
                outputs.append((self.modules[stage] or module).forward(x[chosen], **of_rows(kwargs, chosen, x)))
        back = torch.cat([chosen for _, chosen in groups]).argsort()
        if isinstance(outputs[0], tuple):
            return tuple(joined(each, back) for each in zip(*outputs, strict=True))
        return joined(outputs, back)

    def _refresh(self, module: Any) -> None:
        """Follow the model to another device, dtype or attention processor; other layers are refused."""
        if torch.compiler.is_compiling():
            return
        if any(own is not known for own, known in zip(self._parts(module), self.known, strict=True)):
            raise RuntimeError(
                f"layers of {self.part.site.name} were replaced after prune, for example by an adapter; remove the "
                "handle and prune again"
            )
        weight = self.known[0].weight
        for smaller_one in self.modules:
            if smaller_one is None:
                continue
            own = smaller_one.get_submodule(self.part.first[0]).weight
            if (own.device, own.dtype) != (weight.device, weight.dtype):
                self.modules = self._make(module)
                return
            if self.part.site.kind != "mlp":
                smaller_one.processor = module.processor


def joined(parts: Sequence[Tensor], back: Tensor) -> Tensor:
    """The rows of all stages in their order; heads that the block drops may differ in number, and become zeros."""
    if len({part.shape[-1] for part in parts}) > 1:
        return parts[0].new_zeros((len(back), *parts[0].shape[1:]))
    return torch.cat(list(parts))[back]


BY_ROW = ("encoder_hidden_states", "attention_mask", "encoder_attention_mask", "encoder_hidden_states_mask", "temb")


def of_rows(kwargs: dict[str, Any], rows: Tensor, x: Tensor) -> dict[str, Any]:
    """The arguments of some rows; rotary tables and the like are for all."""

    def taken(name: str, value: Any) -> Any:
        has_rows = name in BY_ROW and isinstance(value, Tensor) and value.shape[0] == x.shape[0]
        return value[rows] if has_rows else value

    return {name: taken(name, value) for name, value in kwargs.items()}


@dataclass(frozen=True, eq=False)
class Pruned:
    """A method, the stages of the trajectory, and what goes out of each site in each of them.

    `attach` puts it on a model of the same configuration, which may be on the meta device.
    """

    method: Any
    stages: Stages
    cuts: Mapping[str, tuple[Removal | None, ...]]
    text_tokens: int

    def __len__(self) -> int:
        return len(self.cuts)

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of timesteps that each stage has."""
        return self.stages.shares

    def number(self, t: float) -> int:
        return self.stages.number(t)

    def costs(self, network: nn.Module, count: Callable[[], int]) -> list[int]:
        """What `count` counts on the network in each stage."""
        found = []
        with self.attach(network) as handle:
            for number in range(len(self.stages.stages)):
                with handle.at_stage(number):
                    found.append(count())
        return found

    def attach(self, network: nn.Module) -> Handle:
        found = {part.site.name: part for part in check_prunable(network)}
        missing = [name for name in self.cuts if name not in found]
        if missing:
            raise ValueError(f"{type(network).__name__} has no {missing[0]}; it was pruned as another model")
        replacements: dict[str, Replacement] = {
            name: SmallerSite(found[name], cuts, found[name].site.module) for name, cuts in self.cuts.items()
        }
        reader = StageReader(self.stages)
        sites = [part.site for part in found.values()]
        attached = attach_stand_ins(network, sites, replacements, reader)
        return Handle(network, attached, self, reader)

    def status(self, network: nn.Module) -> PruneStatus:
        """FLOPs of each site before and after, for one sample at the model's own size."""
        rows = []
        for part in check_prunable(network):
            dense, name = part.flops(self.text_tokens), part.site.name
            cuts = self.cuts.get(name) or (None,) * len(self.stages.stages)
            kept = tuple(part.groups if cut is None else len(cut.kept) for cut in cuts)
            extra = dummy_flops(part.site)
            after = tuple(
                dense if cut is None else round(dense * count / part.groups) + extra
                for cut, count in zip(cuts, kept, strict=True)
            )
            rows.append(SitePruning(name, part.site.kind, part.groups, kept, dense, after))
        return PruneStatus(rows, self.stages)

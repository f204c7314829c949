"""What actions save, for all sites in one pass."""

import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from bigain.bench.flops import count_flops
from bigain.bench.trajectory import Parts, Size, acting, alone, usual_timesteps
from bigain.compression import Setting, compress
from bigain.compression.setting import Compression
from bigain.denoisers.base import Denoiser
from bigain.models.architectures import example_inputs, meta_copy
from bigain.models.family import family_of
from bigain.models.rows import RowGroups, same_input
from bigain.models.site import KINDS, Site, Where
from bigain.operators.base import parse
from bigain.tuning.actions import Action


class Saved(NamedTuple):
    """Shares of the FLOPs of all passes that are saved: in classification, and in generation."""

    classify: float
    generate: float


class Costs:
    """FLOPs of a model with operators, in classification of `classes` classes a trial and in generation.

    What sites did in one pass of the model itself tells what they save: counting FLOPs is ten times slower.
    """

    def __init__(self, denoiser: Denoiser, classes: int) -> None:
        self.network: Any = denoiser.network
        self.size: Size = {"latent": denoiser.latent_shape[1:], "text_tokens": denoiser.text_tokens}
        self.classes = classes
        self.dense = count_flops(meta_copy(self.network), **self.size)
        self.sites: list[Site] = family_of(self.network).sites(self.network)
        self.indices = {kind: tuple(s.index for s in self.sites if s.kind == kind) for kind in KINDS}
        self._known: dict[tuple[str, bool], dict[str, Saved]] = {}
        self._parts: dict[tuple[Parts, int], float] = {}

    def of_action(self, site: Site, action: Action) -> Saved:
        """What an action saves if it acts in all timesteps and alone in its block."""
        key = (action.operator, action.correct)
        if key not in self._known:
            self._known[key] = self._everywhere(*key)
        return self._known[key].get(site.name, Saved(0.0, 0.0))

    def _everywhere(self, operator: str, correct: bool) -> dict[str, Saved]:
        """What an operator saves at each site that takes it; each kind of site has plans of its own."""
        able = KINDS if parse(operator).reduces_queries else ("self",)
        options: Any = {"groups": "classes", "correct": correct}
        parts = tuple(
            Compression(operator, Where(index=self.indices[kind], module=kind), **options)
            for kind in able if self.indices[kind]
        )  # fmt: skip
        try:
            return self._both(parts)
        except ValueError:
            found: dict[str, Saved] = {}
            for site in self.sites:
                with suppress(ValueError):
                    if site.kind in able:
                        place = Where(index=site.index, module=site.kind, part=site.part)
                        found |= self._both((Compression(operator, place, **options),))
            return found

    def _both(self, parts: Parts) -> dict[str, Saved]:
        classify, generate = self._savings(parts, self.classes), self._savings(alone(parts), 1)
        return {name: Saved(share, generate[name]) for name, share in classify.items()}

    @torch.no_grad()
    def _savings(self, parts: Parts, rows: int) -> dict[str, float]:
        """The share of all FLOPs of a row that each site saves, where all operators act."""
        inputs = example_inputs(self.network, batch=rows, **self.size)
        same = RowGroups(torch.zeros(rows, dtype=torch.int64, device=self.network.device), 1)
        with same_input(same), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "correct=True costs more")  # then it is not chosen
            with compress(self.network, Setting(parts)) as handle:
                self.network(*inputs.args, **inputs.kwargs)
                return {row.name: (row.flops_before - row.flops_after) / self.dense for row in handle.status()}

    def of_parts(self, parts: Sequence[Compression], steps: Sequence[float]) -> Saved:
        """What operators save: in classification over all timesteps, in generation over those of the sampler."""
        even = usual_timesteps(parts)
        return Saved(self._mean(parts, even, self.classes), self._mean(alone(parts), steps, 1))

    def _mean(self, parts: Sequence[Compression], steps: Sequence[float], rows: int) -> float:
        """The share that is saved, mean over timesteps."""
        counts = Counter(acting(parts, t) for t in steps)
        return sum(count * self._share(one, rows) for one, count in counts.items()) / len(steps)

    def _share(self, parts: Parts, rows: int) -> float:
        if parts and (parts, rows) not in self._parts:
            self._parts[parts, rows] = sum(self._savings(parts, rows).values())
        return self._parts[parts, rows] if parts else 0.0

"""DiT: classes are ImageNet names or label numbers."""

import difflib
from collections.abc import Sequence

import torch

from bigain.denoisers.base import Condition
from bigain.denoisers.pipeline import PIPELINES, PipelineDenoiser


@PIPELINES.register("DiTPipeline")
class DiTDenoiser(PipelineDenoiser):
    """DiT: classes are ImageNet names or label numbers."""

    models = ("transformer", "vae")
    others = ("scheduler",)
    default_scheduler = "ddim"
    guidance_scale = 4.0

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        labels = torch.tensor([self.class_key(name) for name in classes], dtype=torch.int64, device=self.device)
        return Condition({"class_labels": labels})

    def unconditional(self, rows: int) -> Condition:
        return Condition({"class_labels": torch.full((rows,), self._count, device=self.device)})

    @property
    def _count(self) -> int:
        return int(self.network.config.num_embeds_ada_norm)

    def class_key(self, name: str | int) -> int:
        names = self.pipeline.labels
        if isinstance(name, str):
            if name not in names:
                near = ", ".join(map(repr, difflib.get_close_matches(name, names, 3)))
                hint = f"Did you mean {near}? " if near else ""
                raise ValueError(
                    f"unknown class {name!r}. {hint}Available: {len(names)} names and the numbers 0..{self._count - 1}"
                )
            return int(names[name])
        if isinstance(name, bool) or not 0 <= name < self._count:
            raise ValueError(f"no class number {name}; this model has 0..{self._count - 1}")
        return name

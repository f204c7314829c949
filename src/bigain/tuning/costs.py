"""What actions save, counted on the meta device once for each kind of site."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import nn

from bigain.bench.flops import count_flops, group_flops
from bigain.bench.flops import mean_flops as mean_of
from bigain.bench.trajectory import Size, alone
from bigain.compression.setting import Compression
from bigain.denoisers.base import Denoiser
from bigain.models.architectures import meta_copy
from bigain.models.costs import site_flops, site_width
from bigain.models.site import Site
from bigain.tuning.actions import Action, one_site


class Saved(NamedTuple):
    """Shares of the FLOPs of all passes that are saved: in classification, and in generation."""

    classify: float
    generate: float


class Costs:
    """FLOPs of a model with operators, in classification of `classes` classes a trial and in generation."""

    def __init__(self, denoiser: Denoiser, classes: int) -> None:
        self.network: nn.Module = meta_copy(denoiser.network)
        self.size: Size = {"latent": denoiser.latent_shape[1:], "text_tokens": denoiser.text_tokens}
        self.classes = classes
        self.dense = count_flops(self.network, **self.size)
        self._known: dict[tuple[object, ...], Saved] = {}

    def of_action(self, site: Site, action: Action) -> Saved:
        """What an action saves if it acts in all timesteps."""
        width, probe = site_width(site), site_flops(site, 7, 5, 3)
        key = (site.kind, site.stage, site.tokens, width, probe, action.operator, action.correct)
        if key not in self._known:
            self._known[key] = self._counted(one_site(site, action))
        return self._known[key]

    def _counted(self, part: Compression) -> Saved:
        classify = group_flops(self.network, [part], self.classes, **self.size) / self.classes
        generate = group_flops(self.network, alone([part]), 1, **self.size)
        return Saved(1 - classify / self.dense, 1 - generate / self.dense)

    def of_parts(self, parts: Sequence[Compression], steps: Sequence[float]) -> Saved:
        """What operators save: in classification over all timesteps, in generation over those of the sampler."""
        if not parts:
            return Saved(0.0, 0.0)
        classify = mean_of(self.network, parts, classes=self.classes, **self.size)
        generate = mean_of(self.network, parts, steps, **self.size)
        return Saved(1 - classify / self.dense, 1 - generate / self.dense)

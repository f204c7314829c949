"""MosaicDiff: in each stage of the trajectory its own heads and channels are taken out, without training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bigain.denoisers.base import Denoiser, share_weights
from bigain.progress import library_bar
from bigain.pruning.calibration import Moments, examples, moments
from bigain.pruning.checks import check_between, is_real
from bigain.pruning.methods import METHODS
from bigain.pruning.parts import Prunable, check_prunable
from bigain.pruning.pruned import Pruned
from bigain.pruning.second_order import Layer, Removal, remove
from bigain.pruning.trajectory import cut, scores, stage_sparsities

MOST = 0.9  # of the FLOPs of a stage
FULLEST = 0.95  # of the channels of an MLP


@METHODS.register("mosaic")
@dataclass(frozen=True)
class Mosaic:
    """Structured pruning by stages of the trajectory (MosaicDiff), from calibration images, without training.

    `sparsity` is the share of the FLOPs of attention and MLPs that goes, as a mean over all timesteps. `share` of the
    largest score is where the middle stage begins and ends; `snr_weight` is the paper's lambda.
    """

    needs_images: ClassVar[bool] = True
    sequential: ClassVar[bool] = False  # rows of a batch may have any timesteps

    sparsity: float
    share: float = 0.5
    snr_weight: float = 0.1
    damping: float = 0.01

    def __post_init__(self) -> None:
        check_between("sparsity", self.sparsity, 0, MOST)
        check_between("share", self.share, 0, 1)
        for name in ("snr_weight", "damping"):
            value = getattr(self, name)
            if not is_real(value) or not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a number of at least 0, got {value!r}")

    def fit(self, denoiser: Denoiser, calibration: Any, labels: Any = None, seed: int = 0) -> Pruned:
        """What goes and what stays, from calibration images."""
        stages = cut(scores(denoiser.schedule, self.snr_weight), self.share)
        found = check_prunable(denoiser.network)
        text = denoiser.text_tokens
        wanted = stage_sparsities(stages, self.sparsity, MOST)
        plans = [removals(found, sparsity, text) for sparsity in wanted]
        given = examples(denoiser, calibration, labels, seed)
        if not any(map(sum, plans)):
            return Pruned(self, stages, {}, text)
        plain = share_weights(denoiser)  # calibrates dense, whatever is attached to the model
        gathered = moments(plain, found, stages, given)
        return Pruned(self, stages, self._cuts(plain, found, plans, gathered), text)

    def _cuts(
        self, plain: Denoiser, parts: Sequence[Prunable], plans: Sequence[Sequence[int]], gathered: Sequence[Moments]
    ) -> dict[str, tuple[Removal | None, ...]]:
        """For each site with something to take out, its removal in each stage."""
        cuts: dict[str, tuple[Removal | None, ...]] = {}
        with library_bar("pruning", len(parts) * len(plans)) as advance:
            for number, part in enumerate(parts):
                own: list[Removal | None] = []
                for plan, found in zip(plans, gathered, strict=True):
                    own.append(self._cut(plain, part, plan[number], found) if plan[number] else None)
                    advance()
                if any(own):
                    cuts[part.site.name] = tuple(own)
        return cuts

    def _cut(self, plain: Denoiser, part: Prunable, count: int, found: Moments) -> Removal:
        name = part.site.name
        weights: list[Any] = [plain.network.get_submodule(f"{name}.{last}").weight for last in part.last]
        pairs = zip(weights, part.last, strict=True)
        layers = [Layer(weight.detach().cpu(), found[name, last]) for weight, last in pairs]
        return remove(layers, part.size, count, self.damping)


def removals(parts: Sequence[Prunable], sparsity: float, text: int) -> tuple[int, ...]:
    """How many heads and channels go where, so that this share of the FLOPs goes.

    Of each attention the same share of heads, rounded down to whole ones; MLPs make up for the rest.
    """
    flops = [part.flops(text) for part in parts]
    counts = [
        0 if part.site.kind == "mlp" else min(int(sparsity * part.groups + 1e-9), part.groups - 1) for part in parts
    ]
    gone = sum(f * count / part.groups for f, count, part in zip(flops, counts, parts, strict=True))
    mlps = sum(f for f, part in zip(flops, parts, strict=True) if part.site.kind == "mlp")
    share = min(FULLEST, (sparsity * sum(flops) - gone) / mlps) if mlps else 0.0
    return tuple(
        round(share * part.groups) if part.site.kind == "mlp" else count
        for part, count in zip(parts, counts, strict=True)
    )

"""What a choice saves and keeps on images and seeds that it was not chosen on."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from bigain.compression.setting import Compression
from bigain.metrics.frechet import frechet_distance
from bigain.metrics.intervals import Estimate, Share, bootstrap_mean, wilson
from bigain.metrics.paired import share_difference
from bigain.metrics.similarity import psnr, ssim
from bigain.tuning.costs import Costs, Saved
from bigain.tuning.meter import Meter, centred

HELD_OUT = 100_000  # number of the first image that is generated for verification
Features = Callable[[Tensor], np.ndarray]


class Held(NamedTuple):
    """Images and subjects that nothing is chosen on."""

    images: Sequence[Any] | None
    labels: Sequence[int] | None  # numbers of the true classes, if they are known
    subjects: Sequence[str | int] | None
    features: Features | None = None


class Verified(NamedTuple):
    """What operators save and keep, with intervals; None for what was not asked for.

    `margin` is the change of the paired margin of the uncompressed model's label, relative to the margin.
    """

    saved: Saved
    agreement: Share | None = None  # labels that are those of the uncompressed model
    margin: Estimate | None = None
    difference_error: float | None = None  # of the differences between classes, relative
    accuracy: Share | None = None
    accuracy_change: Estimate | None = None
    ssim: Estimate | None = None  # to the uncompressed images of the same seeds
    psnr: float | None = None
    frechet: float | None = None  # distance to the uncompressed images, in the features given

    def kept(self) -> float:
        """The smallest share of what was asked to be kept: of labels and of the similarity of images."""
        return min(part.value for part in (self.agreement, self.ssim) if part is not None)

    def loss(self) -> tuple[float, ...]:
        """What is to be small, one number for each capability."""
        image = None if self.ssim is None else 1 - self.ssim.value
        return tuple(value for value in (self.difference_error, image) if value is not None)

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"saved": self.saved._asdict()}
        for name, value in self._asdict().items():
            if isinstance(value, Estimate):
                found[name] = value.as_json()
            elif isinstance(value, Share):
                found[name] = {"value": value.value, **value._asdict()}
            elif name != "saved" and value is not None:
                found[name] = value
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Verified":
        kept: dict[str, Any] = {"saved": Saved(**found["saved"])}
        for name in ("agreement", "accuracy"):
            if name in found:
                kept[name] = Share(*(found[name][key] for key in Share._fields))
        for name in ("margin", "accuracy_change", "ssim"):
            if name in found:
                numbers: Any = {key: math.nan if value is None else value for key, value in found[name].items()}
                kept[name] = Estimate(**numbers)
        return cls(**kept, **{name: found[name] for name in ("difference_error", "psnr", "frechet") if name in found})


class Verifier:
    """Compares operators with the uncompressed model on what was held out."""

    def __init__(self, meter: Meter, costs: Costs, held: Held, steps: Sequence[float]) -> None:
        self.meter, self.costs, self.held, self.steps = meter, costs, held, steps
        self.errors = None if held.images is None else meter.errors((), held.images)
        self.images = None if held.subjects is None else meter.images((), held.subjects, HELD_OUT)

    def __call__(self, parts: Sequence[Compression]) -> Verified:
        found: dict[str, Any] = {}
        if self.errors is not None and self.held.images is not None:
            found |= self.decisions(self.meter.errors(parts, self.held.images))
        if self.images is not None and self.held.subjects is not None:
            found |= self.pictures(self.meter.images(parts, self.held.subjects, HELD_OUT))
        return Verified(self.costs.of_parts(parts, self.steps), **found)

    def decisions(self, errors: np.ndarray) -> dict[str, Any]:
        """Agreement and margins of decisions on the mean over trials: (n, K, R)."""
        dense: Any = self.errors
        ours, theirs = errors.mean(2).argmin(1), dense.mean(2).argmin(1)
        before, after = margins(dense, theirs), margins(errors, theirs)
        found: dict[str, Any] = {
            "agreement": wilson(int((ours == theirs).sum()), len(ours)),
            "difference_error": float(
                np.sqrt(np.square(centred(errors) - centred(dense)).sum() / np.square(centred(dense)).sum())
            ),
        }
        if len(ours) > 1:
            found["margin"] = bootstrap_mean((after - before) / before.mean())
        if self.held.labels is not None:
            truth = np.asarray(self.held.labels)
            found["accuracy"] = wilson(int((ours == truth).sum()), len(ours))
            found["accuracy_change"] = share_difference(ours == truth, theirs == truth)
        return found

    def pictures(self, images: Tensor) -> dict[str, Any]:
        """Similarity to the uncompressed images of the same seeds."""
        dense: Any = self.images
        alike = ssim(images, dense)
        few = Estimate(float(alike.mean()), float("nan"), float("nan"), len(alike))
        found: dict[str, Any] = {"ssim": bootstrap_mean(alike) if len(alike) > 1 else few}
        found["psnr"] = float(np.median(psnr(images, dense).clip(max=99)))
        if self.held.features is not None and len(images) > 3:
            found["frechet"] = float(frechet_distance(self.held.features(images), self.held.features(dense)))
        return found


def margins(errors: np.ndarray, winners: np.ndarray) -> np.ndarray:
    """By how much the best other class is worse than these: (n, K, R), (n,) -> (n,)."""
    means, rows = errors.mean(2), np.arange(len(errors))
    own = means[rows, winners]
    others = means.copy()
    others[rows, winners] = np.inf
    return others.min(1) - own

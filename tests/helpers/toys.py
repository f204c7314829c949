"""A denoiser whose errors are known in closed form."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bigain.denoisers.base import Condition, Denoiser, ImageSpec
from bigain.denoisers.schedule import Schedule


class PointDenoiser(Denoiser):
    """Class k is a point mass at `points[k]`: the ideal noise is (x_t - signal · point) / spread.

    The error of class k at t is (signal / spread)² · mean((x - point)²), so the nearest point always wins.
    """

    def __init__(self, points: Tensor, schedule: Schedule | None = None) -> None:
        super().__init__(nn.Linear(1, 1), schedule or Schedule(), ImageSpec(points.shape[-1], points.shape[1]))
        self.points = points
        self.batches: list[int] = []

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        return tuple(self.points.shape[1:])

    def encode(self, images: Tensor) -> Tensor:
        return images

    def decode(self, latents: Tensor) -> Tensor:
        return latents

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        return Condition({"points": self.points[[int(k) for k in classes]]})

    def unconditional(self, rows: int) -> Condition:
        return Condition({"points": torch.zeros(rows, *self.latent_shape)})

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        self.batches.append(len(noisy))
        signal, spread = (level[t].view(-1, 1, 1, 1) for level in self.schedule.levels())
        return (noisy - signal * condition.values["points"]) / spread


def points(classes: int, seed: int = 0) -> Tensor:
    return 2 * torch.rand(classes, 1, 4, 4, generator=torch.Generator().manual_seed(seed)) - 1

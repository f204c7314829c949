"""Classification with blocks that are skipped from step to step.

A trial of a diffusion classifier has no step before it. Here it has: the trials of an image come in the order of
falling timesteps, all with the same noise, and a skipped block gives its output of the trial before for the same class.
All classes take part in all trials. Rows keep their own outputs, so decisions do not depend on batches or order.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bigain.checks import check_count
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.classify.state import ClassifierState
from bigain.classify.trials import Trial, draw_noise, fingerprint, staged_timesteps
from bigain.denoisers.base import Denoiser
from bigain.models.stand_in import stand_ins

ONE_NOISE = -1  # stands for the timestep in the key of the noise


class SequentialClassifier(DiffusionClassifier):
    """A `DiffusionClassifier` whose trials are a trajectory: one noise an image, falling timesteps, all classes.

    `trials` timesteps are evenly spaced, or given as `timesteps`.
    """

    def __init__(
        self, denoiser: Denoiser | Any, classes: Iterable[str | int], *, trials: int = 20, **options: Any
    ) -> None:
        count = check_count("trials", trials)
        options.setdefault("timesteps", None)
        super().__init__(denoiser, classes, f"exhaustive(trials={count})", remember_prompts=False, **options)
        self.steps = self._steps(count)

    def _steps(self, count: int) -> list[int]:
        if self.timesteps == "even":
            found = [t for stage in staged_timesteps(self.num_train_timesteps, [count]) for t in stage]
        elif isinstance(self.timesteps, str):
            raise ValueError(f'timesteps must be "even", a profile or ints for trials in order, got {self.timesteps!r}')
        else:
            found = list(self.timesteps.timesteps)
        return sorted(set(found), reverse=True)

    def _stream(self, waiting: Iterator[tuple[int, Tensor]]) -> Iterator[tuple[int, Decision]]:
        together = max(1, self.batch_size // len(self.classes))
        while images := list(islice(waiting, together)):
            errors = self._errors([pixels for _, pixels in images])
            for (number, _), own in zip(images, errors, strict=True):
                state = ClassifierState.empty(len(self.classes))
                state.add([Trial(t, 0) for t in self.steps], own)
                yield number, self._decision(state)

    @torch.no_grad()
    def _errors(self, images: list[Tensor]) -> list[np.ndarray]:
        """Errors of all classes in all trials: n images -> n of (K, R)."""
        device, shape = self.denoiser.device, self.denoiser.latent_shape
        latents = torch.cat([self.denoiser.encode(pixels[None]) for pixels in images])
        keys = [fingerprint(pixels) for pixels in images]
        drawn = [draw_noise(self.seed, key, Trial(ONE_NOISE, 0), shape) for key in keys]
        noise, classes = torch.stack(drawn).to(device), len(self.classes)
        rows = torch.arange(len(images), device=device).repeat_interleave(classes)
        labels = torch.arange(classes, device=device).repeat(len(images))
        parts = [
            self._trajectory(latents[r], noise[r], labels[chunk])
            for chunk in torch.arange(len(rows), device=device).split(self.batch_size)
            for r in [rows[chunk]]
        ]
        return list(torch.cat(parts).double().cpu().numpy().reshape(len(images), classes, -1))

    def _trajectory(self, latents: Tensor, noise: Tensor, labels: Tensor) -> Tensor:
        """All trials of some rows, one after the other: (B, C, H, W), (B, C, H, W), (B,) -> (B, R)."""
        for stand_in in stand_ins(self.denoiser.network):
            stand_in.attached.begin()
        condition, engine = self.engines[0].condition.take(labels), self.engines[0]
        found = []
        for t in self.steps:
            times = torch.full((len(labels),), t, device=labels.device)
            found.append(self.denoiser.error(latents, condition, times, noise, engine.loss))
        return torch.stack(found, 1)

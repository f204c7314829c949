"""Measurements of a model under operators: errors of classes, predictions on noisy images, generated images."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.trials import even_timesteps
from bigain.compression import Setting, compress
from bigain.compression.setting import Compression
from bigain.denoisers.base import Denoiser
from bigain.generation import Sampling, generate
from bigain.metrics.similarity import ssim
from bigain.models.rows import RowGroups, same_input
from bigain.models.windows import Window, holds
from bigain.seeds import hashed

Parts = Sequence[Compression]


class Task(NamedTuple):
    """What is measured: classes to tell apart, the trials of an image, and how images are generated."""

    classes: tuple[str | int, ...]
    trials: int
    sampling: Sampling


class Effect(NamedTuple):
    """What operators change, by band of timesteps, relative to the uncompressed model; None where not measured.

    `classify` is the squared error of the differences between classes, `generate` that of the guided prediction.
    """

    classify: tuple[float, ...] | None
    generate: tuple[float, ...] | None


class Meter:
    """Runs a model, compressed or not, on the same images, noise and seeds."""

    def __init__(self, denoiser: Denoiser, task: Task) -> None:
        self.denoiser, self.task = denoiser, task
        self.timesteps = even_timesteps(denoiser.schedule.num_train_timesteps, task.trials)
        self.classifier = DiffusionClassifier(
            denoiser,
            task.classes,
            f"exhaustive(trials={task.trials})",
            timesteps=self.timesteps,
            seed=task.sampling.seed,
        )

    @contextmanager
    def attached(self, parts: Parts) -> Iterator[None]:
        """The model with all operators inside the `with` block."""
        if not parts:
            yield
            return
        with compress(self.denoiser.network, Setting(tuple(parts))):
            yield

    def errors(self, parts: Parts, images: Sequence[Any]) -> np.ndarray:
        """Errors of all classes on all trials: -> (n, K, R)."""
        with self.attached(parts):
            return np.stack([decision.errors for decision in self.classifier(images)])

    def images(self, parts: Parts, subjects: Sequence[str | int], first: int = 0) -> Tensor:
        """Generated images, the same seeds each time: -> (n, c, s, s)."""
        with self.attached(parts):
            return generate(self.denoiser, subjects, self.task.sampling, first=first)

    @torch.no_grad()
    def predictions(self, parts: Parts, latents: Tensor, subjects: Sequence[str | int]) -> Tensor:
        """Guided predictions for each image noised to each timestep: (n, C, H, W) -> (R, n, C, H, W)."""
        denoiser = self.denoiser
        condition, scale = denoiser.guided(denoiser.conditions(list(subjects)), denoiser.guidance_scale)
        rows, at_once = torch.arange(len(latents)), max(1, denoiser.rows_at_once() // 2)
        found = []
        with self.attached(parts):
            for t in self.timesteps:
                chunks = [self._guided(latents, condition, scale, t, part) for part in rows.split(at_once)]
                found.append(torch.cat(chunks))
        return torch.stack(found)

    def _guided(self, latents: Tensor, condition: Any, scale: float, t: int, rows: Tensor) -> Tensor:
        """The prediction that a sampler would get for some images."""
        denoiser, count = self.denoiser, len(rows)
        rows = rows.to(denoiser.device)
        steps = torch.full((count,), t, device=denoiser.device)
        noise = torch.stack([self._noise(int(row), t) for row in rows]).to(denoiser.device)
        noisy = denoiser.schedule.add_noise(latents[rows], noise, steps)
        own, halves = condition.take(rows), 1 if scale == 1 else 2
        both = own if halves == 1 else own.join(denoiser.unconditional(count))
        keys = torch.tensor([hashed("tune", self.task.sampling.seed, int(row), t) for row in rows])
        groups = RowGroups(
            torch.arange(count, device=denoiser.device).repeat(halves),
            count,
            keys=keys.to(denoiser.device),
            members=torch.arange(halves, device=denoiser.device).repeat_interleave(count),
            guidance=True,
        )
        with same_input(groups):
            found = denoiser.prediction(noisy.repeat(halves, 1, 1, 1), steps.repeat(halves), both)
        if halves == 1:
            return found
        conditional, unconditional = found.chunk(2)
        return denoiser.guide(conditional, unconditional, scale)

    def _noise(self, row: int, t: int) -> Tensor:
        generator = torch.Generator().manual_seed(hashed("tune noise", self.task.sampling.seed, row, t))
        return torch.randn(self.denoiser.latent_shape, generator=generator)


class Reference:
    """What the uncompressed model does with the images of the search, and how far operators are from it."""

    def __init__(
        self, meter: Meter, images: Sequence[Any] | None, subjects: Sequence[str | int] | None, bands: Sequence[Window]
    ) -> None:
        self.meter, self.bands = meter, bands
        self.images, self.subjects = images, subjects
        self.errors = centred(meter.errors((), images)) if images is not None else None
        if subjects is not None:
            self.generated = meter.images((), subjects)
            self.latents = meter.denoiser.encode(self.generated)
            self.predictions = meter.predictions((), self.latents, subjects)

    def classify(self, parts: Parts) -> tuple[float, ...] | None:
        """The squared error of class differences by band, relative to their size."""
        if self.errors is None or self.images is None:
            return None
        error = np.square(centred(self.meter.errors(parts, self.images)) - self.errors).sum((0, 1))
        return self._by_band(error / np.square(self.errors).sum())

    def generate(self, parts: Parts) -> tuple[float, ...] | None:
        """The squared error of guided predictions by band, relative to their size."""
        if self.subjects is None:
            return None
        found = self.meter.predictions(parts, self.latents, self.subjects)
        error = (found - self.predictions).double().square().flatten(1).sum(1).cpu().numpy()
        return self._by_band(error / float(self.predictions.double().square().sum()))

    def final(self, parts: Parts) -> float:
        """How far generated images are from the uncompressed ones: 1 - SSIM, mean."""
        assert self.subjects is not None  # asked for in generation only
        return float(1 - ssim(self.meter.images(parts, self.subjects), self.generated).mean())

    def _by_band(self, values: np.ndarray) -> tuple[float, ...]:
        steps = self.meter.timesteps
        return tuple(
            float(sum(value for t, value in zip(steps, values, strict=True) if holds(band, t))) for band in self.bands
        )


def centred(errors: np.ndarray) -> np.ndarray:
    """Errors less their mean over classes: (n, K, R) -> (n, K, R)."""
    return errors - errors.mean(1, keepdims=True)

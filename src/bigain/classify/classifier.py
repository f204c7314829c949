"""The diffusion classifier: the class whose condition explains the noise best."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.backbones.denoiser import Denoiser
from bigain.classify.policies import Board, Stages
from bigain.classify.trials import Trial, draw_noise, fingerprint


@dataclass(frozen=True)
class Decision:
    """The outcome for one image."""

    label: str | int  # the element of `classes` that won
    index: int
    ranking: tuple[int, ...]  # indices of all classes, best first: by rounds survived, then by mean error
    errors: np.ndarray  # (K, R), NaN where a class was not tried
    steps: tuple[int, ...]  # (R,) time steps of the trials
    evaluations: int


class Work(NamedTuple):
    """One trial of one image for its surviving classes."""

    image: int
    trial: Trial
    classes: np.ndarray


class DiffusionClassifier:
    """Classify images with a denoiser: the same (t, noise) trials for all classes of an image."""

    def __init__(
        self,
        denoiser: Denoiser,
        classes: Sequence[str | int],
        policy: Any = None,
        *,
        seed: int = 0,
        batch_size: int = 128,
    ) -> None:
        self.denoiser = denoiser
        self.classes = tuple(classes)
        self.policy = policy or Stages()
        self.seed = seed
        self.batch_size = batch_size
        self.condition = denoiser.conditions(self.classes)

    def __call__(self, images: Tensor, progress: Callable[[int], None] | None = None) -> list[Decision]:
        """Decisions for images in [-1, 1] of the model's size: (B, c, s, s) -> B decisions."""
        decisions: list[Decision] = []
        chunk = max(1, self.batch_size // len(self.classes))
        for part in images.split(chunk):
            decisions += self._decide(part)
            if progress is not None:
                progress(len(part))
        return decisions

    def _decide(self, images: Tensor) -> list[Decision]:
        latents = self.denoiser.encode(images)
        prints = [fingerprint(image) for image in images]
        boards = [Board.empty(len(self.classes)) for _ in prints]
        timesteps = self.denoiser.schedule.timesteps
        policies: list[Iterator[list[Trial]]] = [self.policy.rounds(board, timesteps) for board in boards]
        running = list(range(len(boards)))
        while running:
            wanted = {i: next(policies[i], None) for i in running}
            running = [i for i in running if wanted[i] is not None]
            work = [Work(i, trial, boards[i].alive) for i in running for trial in wanted[i] or ()]
            errors = self._run(work, latents, prints)
            for i in running:
                columns = [error for item, error in zip(work, errors, strict=True) if item.image == i]
                boards[i].add(wanted[i] or [], np.stack(columns, axis=1))
        return [self._decision(board) for board in boards]

    def _run(self, work: list[Work], latents: Tensor, prints: list[int]) -> list[np.ndarray]:
        """Errors of each piece of work, its classes together in one batch where they fit."""
        found: list[np.ndarray] = []
        for batch in batches(work, self.batch_size):
            noises = [draw_noise(self.seed, prints[item.image], item.trial, latents.shape[1:]) for item in batch]
            counts = torch.tensor([len(item.classes) for item in batch])
            rows = torch.repeat_interleave(torch.arange(len(batch)), counts)
            images = torch.tensor([item.image for item in batch])[rows].to(latents.device)
            t = torch.tensor([item.trial.t for item in batch])[rows].to(latents.device)
            classes = torch.from_numpy(np.concatenate([item.classes for item in batch])).to(latents.device)
            noise = torch.stack(noises)[rows].to(latents.device)
            errors = self.denoiser.error(latents[images], self.condition.take(classes), t, noise)
            found += list(np.split(errors.double().cpu().numpy(), np.cumsum(counts.numpy())[:-1]))
        return found

    def _decision(self, board: Board) -> Decision:
        tried = ~np.isnan(board.errors)
        scores = np.array([common_mean(board, tried, k) for k in range(len(self.classes))])
        order = np.lexsort((scores, -board.rounds))
        return Decision(
            label=self.classes[order[0]],
            index=int(order[0]),
            ranking=tuple(map(int, order)),
            errors=board.errors,
            steps=tuple(trial.t for trial in board.trials),
            evaluations=int(tried.sum()),
        )


def common_mean(board: Board, tried: np.ndarray, k: int) -> float:
    """Mean error of a class over the trials that all classes of its rank were given."""
    peers = board.rounds == board.rounds[k]
    common = tried[peers].all(axis=0)
    mean = float(board.errors[k, common].mean()) if common.any() else np.inf
    return mean if np.isfinite(mean) else np.inf


def batches(work: list[Work], size: int) -> Iterator[list[Work]]:
    """Split work into batches of about `size` rows, never inside a trial."""
    batch: list[Work] = []
    rows = 0
    for item in work:
        if batch and rows + len(item.classes) > size:
            yield batch
            batch, rows = [], 0
        batch.append(item)
        rows += len(item.classes)
    if batch:
        yield batch

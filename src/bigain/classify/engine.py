"""The evaluations of a classifier: trials of all images in flight, batch by batch."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.classify.state import ClassifierState
from bigain.classify.trials import Trial, draw_noise
from bigain.denoisers.base import Condition, Denoiser, Loss
from bigain.denoisers.prompts import PromptTable, can_remember
from bigain.models.caches import refuse_cache
from bigain.models.probe import reads_text, shares_inputs
from bigain.models.rows import RowGroups, same_input
from bigain.seeds import hashed

MAX_PLANNING_ROWS = 16  # classes of a trial at most whose mean a shared plan is made from


class Active:
    """An image that is being classified."""

    def __init__(
        self, number: int, image: int, latents: Tensor, state: ClassifierState, rounds: Iterator[list[Trial]]
    ) -> None:
        self.number = number
        self.image = image  # fingerprint
        self.latents = latents
        self.state = state
        self.rounds = rounds
        self.wanted: list[Trial] = next(self.rounds, [])  # trials of this round; none when it is decided
        self.found: list[np.ndarray] = []  # errors of the first of them: (alive,) each

    def work(self) -> "list[Work]":
        return [Work(self, trial, self.state.alive) for trial in self.wanted]

    def answer(self, errors: np.ndarray) -> bool:
        """Add the errors of the next trial of this round; whether that was the last, and a new round is wanted."""
        self.found.append(errors)
        if len(self.found) < len(self.wanted):
            return False
        self.state.add(self.wanted, np.stack(self.found, axis=1))
        self.wanted, self.found = next(self.rounds, []), []
        return True


class Work(NamedTuple):
    """One trial of one image for its surviving classes."""

    image: Active
    trial: Trial
    classes: np.ndarray


class Engine:
    """A denoiser with the conditions of its classes: errors of trials, whatever their batches."""

    def __init__(
        self, denoiser: Denoiser, condition: Condition, *, loss: Loss, seed: int, remember_prompts: bool
    ) -> None:
        self.denoiser = denoiser
        self.condition = condition
        self.loss: Loss = loss
        self.seed = seed
        self.remember_prompts = remember_prompts and can_remember(denoiser.network, condition)
        self._table: PromptTable | None = None

    def prepare(self) -> None:
        """Project the prompts, for one stream of images: an adapter may have been loaded since the last."""
        refuse_cache(self.denoiser.network)
        remembers = self.remember_prompts and not reads_text(self.denoiser.network)
        self._table = PromptTable(self.denoiser.network, self.condition) if remembers else None

    def errors(self, batch: Sequence[Work], batch_size: int) -> list[np.ndarray]:
        """All classes of each trial, in chunks if even one trial does not fit."""
        device = self.denoiser.device
        counts = [len(item.classes) for item in batch]
        rows = torch.repeat_interleave(torch.arange(len(batch)), torch.tensor(counts))
        shape = batch[0].image.latents.shape
        noise = torch.stack([draw_noise(self.seed, item.image.image, item.trial, shape) for item in batch]).to(device)
        latents = torch.stack([item.image.latents for item in batch]).to(device)
        t = torch.tensor([item.trial.t for item in batch], device=device)
        classes = torch.from_numpy(np.concatenate([item.classes for item in batch])).to(device)
        rows = rows.to(device)
        condition = self._table.condition if self._table else self.condition
        # shared plans are made from a trial's first classes, which come in one chunk whatever the batch size
        first = max(batch_size, min(MAX_PLANNING_ROWS, counts[0]) if shares_inputs(self.denoiser.network) else 1)
        planning_rows = None
        if max(counts) > MAX_PLANNING_ROWS:
            planning_rows = torch.cat([torch.arange(count) < MAX_PLANNING_ROWS for count in counts]).to(device)
        parts: list[Tensor] = []
        cache: dict[str, Any] = {}
        # what an operator draws depends on the image and the trial, not on the batch
        keys = torch.tensor(
            [hashed("draw", self.seed, item.image.image, *item.trial.key) for item in batch], device=device
        )
        for start, end in itertools.pairwise([0, *range(first, len(rows), batch_size), len(rows)]):
            chunk = slice(start, end)
            r, planning = rows[chunk], None if planning_rows is None else planning_rows[chunk]
            with (
                same_input(RowGroups(r, len(batch), planning, cache, keys, classes[chunk])),
                self._table.standing() if self._table else nullcontext(),
            ):
                parts.append(self.denoiser.error(latents[r], condition.take(classes[chunk]), t[r], noise[r], self.loss))
        errors = torch.cat(parts).double().cpu().numpy()
        return list(np.split(errors, np.cumsum(counts)[:-1]))


def first_batch(work: Sequence[Work], size: int) -> Sequence[Work]:
    """As many whole trials of one kind, final or not, as fit in a batch, but at least one."""
    alike = itertools.takewhile(lambda item: item.trial.final == work[0].trial.final, work[:size])
    rows = np.cumsum([len(item.classes) for item in alike])
    return work[: max(1, int(np.searchsorted(rows, size, side="right")))]


def out_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def check_finite(item: Work, errors: np.ndarray, classes: Sequence[str | int]) -> None:
    """Warn of NaN errors: they never win, but must not go unnoticed."""
    broken = np.flatnonzero(~np.isfinite(errors))
    if not len(broken):
        return
    where = f"image {item.image.number}, t = {item.trial.t}"
    first = f"{classes[int(item.classes[broken[0]])]!r} has error {errors[broken[0]]}"
    if len(broken) == len(errors):
        raise FloatingPointError(f"{where}: no class has a finite error, {first}; try float32")
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    warnings.warn(f"{where}: {first}{more}; it cannot win", RuntimeWarning, stacklevel=2)

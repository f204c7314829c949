"""The diffusion classifier: the class whose condition explains the noise best."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.checks import check_seed
from bigain.classify.calibration import Calibration, calibrate
from bigain.classify.decision import Decision, distances, paired_margin, probabilities, ranking
from bigain.classify.images import to_tensor
from bigain.classify.incoming import Unreadable, each_image, readable
from bigain.classify.informative import Profile, measure, order_is_chance
from bigain.classify.inputs import check_batch_size, check_classes, check_different, check_labels
from bigain.classify.policies import Exhaustive, as_policy
from bigain.classify.state import ClassifierState, Policy
from bigain.classify.template import check_template
from bigain.classify.trials import (
    Timesteps,
    TimestepSampler,
    Trial,
    check_timesteps,
    draw_noise,
    even_timesteps,
    fingerprint,
)
from bigain.denoisers.base import LOSSES, Denoiser, Loss, as_denoiser
from bigain.denoisers.prompts import PromptTable, can_remember
from bigain.models.probe import reads_text, shares_inputs
from bigain.models.rows import RowGroups, same_input
from bigain.registry import miss
from bigain.seeds import hashed

MAX_PLANNING_ROWS = 16  # classes of a trial at most whose mean a shared plan is made from


class Work(NamedTuple):
    """One trial of one image for its surviving classes."""

    image: "Active"
    trial: Trial
    classes: np.ndarray


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
        self.wanted: list[Trial] | None = next(self.rounds, None)

    def answer(self, errors: np.ndarray) -> None:
        """Store the errors of the requested trials and ask the policy for the next ones: (alive, trials)."""
        self.state.add(self.wanted or [], errors)
        self.wanted = next(self.rounds, None)


class DiffusionClassifier:
    """Classify images with a denoiser, compressed or not: all classes of an image see the same (t, noise) trials.

    `classes` are names, prompts or label numbers, whatever the denoiser takes. `prompts` is a template such as
    "a photo of a {}" for text-conditioned models. `timesteps` is "even", "random", "informative" (measured for the
    bundled models, or with `choose_timesteps`) or a sequence of ints. `remember_prompts` projects the prompts to keys
    and values once instead of in every pass.

    Noise depends on the seed and the image only, so batch size, order and sharding do not change the results.
    """

    def __init__(
        self,
        denoiser: Denoiser | Any,
        classes: Iterable[str | int],
        policy: Policy | str | None = None,
        *,
        prompts: str = "{}",
        timesteps: Timesteps | Literal["informative"] | Sequence[int] = "even",
        loss: Loss = "l2",
        seed: int = 0,
        batch_size: int | str = "auto",
        remember_prompts: bool = True,
    ) -> None:
        denoiser = as_denoiser(denoiser)
        self.denoiser = denoiser
        self.classes = check_classes(classes)
        self.policy: Policy = as_policy(policy)
        if loss not in tuple(LOSSES):
            raise ValueError(miss("loss", loss, LOSSES))
        self.loss: Loss = loss
        self.seed = check_seed(seed)
        measured = isinstance(timesteps, str) and timesteps == "informative"
        self.timesteps = check_timesteps(
            denoiser.informative_timesteps() if measured else timesteps, self.num_train_timesteps
        )
        self.batch_size = check_batch_size(batch_size, denoiser)
        check_template(prompts)
        check_different(self.classes, denoiser)
        self.condition = denoiser.conditions(
            [prompts.replace("{}", name) if isinstance(name, str) else name for name in self.classes]
        )
        self.remember_prompts = remember_prompts and can_remember(denoiser.network, self.condition)
        self._table: PromptTable | None = None
        # half the number of latent values: the log-likelihood of unit noise, until `calibrate` measures better
        self.scale = float(np.prod(denoiser.latent_shape)) / 2

    def __call__(self, images: Iterable[Any], progress: Callable[[Decision], None] | None = None) -> list[Decision]:
        """Decisions for images of any type (see `to_tensor`), in their order."""
        decisions: dict[int, Decision] = {}
        for number, decision in self.stream(images):
            decisions[number] = decision
            if progress is not None:
                progress(decision)
        return [decisions[number] for number in range(len(decisions))]

    def stream(self, images: Iterable[Any], unreadable: Unreadable | None = None) -> Iterator[tuple[int, Decision]]:
        """Yield (number, decision) as images are decided; only as many images as fill a batch are in memory.

        An image is read when there is room for it. If it cannot be read, `unreadable` is called with its number and
        the error, and the image is skipped; without `unreadable` the error is raised.
        """
        return self._stream(readable(each_image(images), self.denoiser.image_spec, unreadable))

    def _stream(self, waiting: Iterator[tuple[int, Tensor]]) -> Iterator[tuple[int, Decision]]:
        # made again for each call: an adapter may have been loaded since
        self._table = PromptTable(self.denoiser.network, self.condition) if self._remembers() else None
        active: list[Active] = []
        while True:
            rows = sum(len(a.wanted or ()) * len(a.state.alive) for a in active)
            while rows < self.batch_size and (taken := next(waiting, None)) is not None:
                active.append(self._start(*taken))
                rows += len(active[-1].wanted or ()) * len(self.classes)
            if not active:
                return
            self._advance(active)
            for done in [a for a in active if a.wanted is None]:
                yield done.number, self._decision(done.state)
            active = [a for a in active if a.wanted is not None]

    def calibrate(self, images: Sequence[Any], labels: Sequence[str | int]) -> Calibration:
        """Fit the temperature of the probabilities on held-out images.

        If all or none of the images are classified correctly, the temperature stays and a warning says so.
        """
        truth = check_labels(self.classes, len(images), labels)
        gaps = np.stack([distances(d.errors, d.ranking) for d in self(images)])
        result = calibrate(gaps, truth, self.scale)
        if result.kept:
            warnings.warn(f"the temperature is unchanged: {result.kept}", stacklevel=2)
        self.scale = result.scale
        return result

    def choose_timesteps(self, images: Sequence[Any], labels: Sequence[str | int], candidates: int = 20) -> Profile:
        """Measure on labelled images which evenly spaced timesteps separate the classes best, and use those first."""
        truth = check_labels(self.classes, len(images), labels)
        steps = even_timesteps(self.num_train_timesteps, candidates)
        policy, timesteps = self.policy, self.timesteps
        self.policy, self.timesteps = Exhaustive(candidates), tuple(steps)
        try:
            errors = np.stack([decision.errors for decision in self(images)])
        finally:
            self.policy, self.timesteps = policy, timesteps
        found = measure(errors, truth, tuple(steps))
        if order_is_chance(errors, truth):
            warnings.warn(
                "the timesteps are unchanged: all of them separate the classes of these images equally well; "
                "use more or harder images",
                stacklevel=2,
            )
            return found
        self.timesteps = found.timesteps
        return found

    @property
    def num_train_timesteps(self) -> int:
        return self.denoiser.schedule.num_train_timesteps

    def _remembers(self) -> bool:
        """Whether prompts are projected once; not where something attached needs the text itself."""
        return self.remember_prompts and not reads_text(self.denoiser.network)

    def _start(self, number: int, image: Any) -> Active:
        pixels = to_tensor(image, self.denoiser.image_spec)
        found = fingerprint(pixels)
        state = ClassifierState.empty(len(self.classes))
        sampler = TimestepSampler(self.timesteps, self.num_train_timesteps, hashed(self.seed, found))
        return Active(number, found, self.denoiser.encode(pixels[None])[0], state, self.policy.rounds(state, sampler))

    def _advance(self, active: list[Active]) -> None:
        work = [Work(a, trial, a.state.alive) for a in active for trial in a.wanted or ()]
        found: dict[int, list[np.ndarray]] = {}
        for item, errors in self._run(work):
            check_finite(item, errors, self.classes)
            found.setdefault(item.image.number, []).append(errors)
        for a in active:
            a.answer(np.stack(found[a.number], axis=1))

    def _run(self, work: list[Work]) -> Iterator[tuple[Work, np.ndarray]]:
        """Errors of each work item; if memory runs out, the batch size is halved for good."""
        while work:
            batch = first_batch(work, self.batch_size)
            try:
                errors = self._errors(batch)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not out_of_memory(error) or self.batch_size <= 1:
                    raise
                self.batch_size //= 2
                continue
            work = work[len(batch) :]
            yield from zip(batch, errors, strict=True)

    def _errors(self, batch: list[Work]) -> list[np.ndarray]:
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
        first = max(self.batch_size, min(MAX_PLANNING_ROWS, counts[0]) if shares_inputs(self.denoiser.network) else 1)
        planning_rows = None
        if max(counts) > MAX_PLANNING_ROWS:
            planning_rows = torch.cat([torch.arange(count) < MAX_PLANNING_ROWS for count in counts]).to(device)
        parts: list[Tensor] = []
        cache: dict[str, Any] = {}
        # what an operator draws depends on the image and the trial, not on the batch
        keys = torch.tensor([hashed("draw", self.seed, item.image.image, *item.trial) for item in batch], device=device)
        for start, end in itertools.pairwise([0, *range(first, len(rows), self.batch_size), len(rows)]):
            chunk = slice(start, end)
            r, planning = rows[chunk], None if planning_rows is None else planning_rows[chunk]
            with (
                same_input(RowGroups(r, len(batch), planning, cache, keys, classes[chunk])),
                self._table.standing() if self._table else nullcontext(),
            ):
                parts.append(self.denoiser.error(latents[r], condition.take(classes[chunk]), t[r], noise[r], self.loss))
        errors = torch.cat(parts).double().cpu().numpy()
        return list(np.split(errors, np.cumsum(counts)[:-1]))

    def _decision(self, state: ClassifierState) -> Decision:
        order = ranking(state)
        winner = int(order[0])
        margin, margin_error = (
            paired_margin(state.errors, winner, int(order[1])) if len(order) > 1 else (np.nan, np.nan)
        )
        tried = ~np.isnan(state.errors)
        return Decision(
            label=self.classes[winner],
            index=winner,
            ranking=tuple(map(int, order)),
            errors=state.errors,
            timesteps=tuple(trial.t for trial in state.trials),
            margin=margin,
            margin_error=margin_error,
            probabilities=probabilities(distances(state.errors, order), self.scale),
            pruned=~tried[:, -1],
            evaluations=int(tried.sum()),
        )


def first_batch(work: list[Work], size: int) -> list[Work]:
    """As many whole trials as fit in a batch, but at least one."""
    rows = np.cumsum([len(item.classes) for item in work])
    return work[: max(1, int(np.searchsorted(rows, size, side="right")))]


def out_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def check_finite(item: Work, errors: np.ndarray, classes: tuple[str | int, ...]) -> None:
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

"""The diffusion classifier: the class whose condition explains the noise best."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from bigain.checks import check_seed
from bigain.classify.calibration import Calibration, calibrate
from bigain.classify.decision import Decision, Standing, distances, paired_margin, probabilities, ranking
from bigain.classify.engine import Active, Engine, Work, check_finite, first_batch, out_of_memory
from bigain.classify.fitting import fit_timesteps
from bigain.classify.images import to_tensor
from bigain.classify.incoming import Unreadable, each_image, readable
from bigain.classify.inputs import (
    check_batch_size,
    check_classes,
    check_different,
    check_final,
    check_labels,
    check_unlabelled,
)
from bigain.classify.policies import Cascade
from bigain.classify.presets import choose_policy, resolve_timesteps
from bigain.classify.state import ClassifierState, Policy
from bigain.classify.template import check_template
from bigain.classify.trials import Timesteps, TimestepSampler, fingerprint
from bigain.denoisers.base import LOSSES, Denoiser, Loss, as_denoiser
from bigain.profile import TimestepProfile
from bigain.registry import miss
from bigain.seeds import hashed

T = TypeVar("T")


class DiffusionClassifier:
    """Classify images with a denoiser, compressed or not: all classes of an image see the same (t, noise) trials.

    `classes` are names, prompts or label numbers, whatever the denoiser takes. `policy` says when classes are dropped:
    a preset ("paper", "balanced", "fast"), a string such as "race(confidence=0.5)", or an instance. `prompts` is a
    template such as "a photo of a {}" for text-conditioned models. `timesteps` is "even", "random", "fitted" (with
    the weights that come with the bundled models), a `TimestepProfile` or its JSON file, or a sequence of ints; by
    default that of the preset, or "even". `final` is another denoiser for the last rounds of a cascade.
    `remember_prompts` projects the prompts to keys and values once instead of in every pass.

    Noise depends on the seed and the image only, so batch size, order and sharding do not change the results.
    """

    def __init__(
        self,
        denoiser: Denoiser | Any,
        classes: Iterable[str | int],
        policy: Policy | str | None = None,
        *,
        prompts: str = "{}",
        timesteps: Timesteps | str | Sequence[int] | None = None,
        loss: Loss = "l2",
        seed: int = 0,
        batch_size: int | str = "auto",
        remember_prompts: bool = True,
        final: Denoiser | Any | None = None,
    ) -> None:
        denoiser = as_denoiser(denoiser)
        self.denoiser = denoiser
        self.classes = check_classes(classes)
        self.asked = policy
        self.timesteps = resolve_timesteps(policy, timesteps, denoiser)
        self.policy: Policy = choose_policy(policy, self.timesteps, len(self.classes))
        if isinstance(self.policy, Cascade) != (final is not None):
            raise ValueError("a cascade needs final=, the denoiser of its last rounds, and final= needs a cascade")
        if loss not in tuple(LOSSES):
            raise ValueError(miss("loss", loss, LOSSES))
        self.seed = check_seed(seed)
        self.batch_size = check_batch_size(batch_size, denoiser)
        check_template(prompts)
        check_different(self.classes, denoiser)
        named = [prompts.replace("{}", name) if isinstance(name, str) else name for name in self.classes]
        networks = [denoiser] if final is None else [denoiser, check_final(as_denoiser(final), denoiser)]
        self.engines = [
            Engine(each, each.conditions(named), loss=loss, seed=self.seed, remember_prompts=remember_prompts)
            for each in networks
        ]
        self.scale = self._first_scale()

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

    def watch(self, image: Any) -> Iterator[Standing]:
        """Classify one image and yield what is known after each of its trials; the last is the decision."""
        for active in self._trials(iter([(0, to_tensor(image, self.denoiser.image_spec))])):
            state = active.so_far()
            decision = self._decision(state)
            gaps = self._gaps(decision.errors, decision.weights, decision.ranking)
            alive = np.isin(np.arange(len(self.classes)), state.alive)
            yield Standing(decision, gaps, alive, done=not active.wanted)

    def _stream(self, waiting: Iterator[tuple[int, Tensor]]) -> Iterator[tuple[int, Decision]]:
        for active in self._trials(waiting):
            if not active.wanted:
                yield active.number, self._decision(active.state)

    def _trials(self, waiting: Iterator[tuple[int, Tensor]]) -> Iterator[Active]:
        """Yield an image each time that one of its trials is done; when it is decided, it wants no more."""
        for engine in self.engines:
            engine.prepare()
        work: list[Work] = []  # trials to run; those of images that have begun come first
        while True:
            rows = sum(len(item.classes) for item in work)
            while rows < self.batch_size and (taken := next(waiting, None)) is not None:
                work += self._start(*taken).work()
                rows = sum(len(item.classes) for item in work)
            if not work:
                return
            batch, errors = self._run(work, Engine.errors)
            work, begun = work[len(batch) :], []
            for item, found in zip(batch, errors, strict=True):
                check_finite(item, found, self.classes)
                if item.image.answer(found):
                    begun += item.image.work()
                yield item.image
            work = begun + work

    def residuals(self, images: Iterable[Any]) -> Iterator[tuple[int, Tensor]]:
        """Yield (number, residuals) of each image: the predicted less the true noise, (K, R, C, H, W).

        Trials are those of the policy's first round, so take "exhaustive(R)" to see all R of them. Their mean squares
        are the errors that decide.
        """
        self.engines[0].prepare()
        for number, pixels in readable(each_image(images), self.denoiser.image_spec, None):
            work, parts = self._start(number, pixels).work(), list[Tensor]()
            while work:
                batch, found = self._run(work, Engine.residuals)
                work, parts = work[len(batch) :], [*parts, *found]
            yield number, torch.stack(parts, 1)

    def calibrate(self, images: Sequence[Any], labels: Sequence[str | int]) -> Calibration:
        """Fit the temperature of the probabilities on held-out images.

        If all or none of the images are classified correctly, the temperature stays and a warning says so.
        """
        truth = check_labels(self.classes, len(images), labels)
        gaps = np.stack([self._gaps(d.errors, d.weights, d.ranking) for d in self(images)])
        result = calibrate(gaps, truth, self.scale)
        if result.kept:
            warnings.warn(f"the temperature is unchanged: {result.kept}", stacklevel=2)
        self.scale = result.scale
        return result

    def fit(
        self,
        images: Sequence[Any],
        labels: Sequence[str | int] | None = None,
        *,
        trials: int = 16,
        candidates: int = 20,
        progress: Callable[[Decision], None] | None = None,
    ) -> TimestepProfile:
        """Fit timesteps and their weights to images, and use them from now on.

        Every class is tried at `candidates` evenly spaced timesteps, of which the best `trials` are kept. Without
        labels the images are labelled by the classifier itself, with noise of their own. Where the images do not show
        that weights help, they stay equal; `profile.note` says so.
        """
        if labels is None:
            check_unlabelled(images)
        truth = None if labels is None else check_labels(self.classes, len(images), labels)
        profile = fit_timesteps(self, images, truth, trials, candidates, progress)
        self.timesteps = profile
        self.policy = choose_policy(self.asked, profile, len(self.classes))
        self.scale = self._first_scale()
        return profile

    @property
    def num_train_timesteps(self) -> int:
        return self.denoiser.schedule.num_train_timesteps

    @property
    def fitted(self) -> bool:
        """Whether the timesteps have weights that turn errors into probabilities."""
        return isinstance(self.timesteps, TimestepProfile) and self.timesteps.scale is not None

    def _first_scale(self) -> float:
        """The fitted scale; else half the number of latent values, the log-likelihood of unit noise."""
        if isinstance(self.timesteps, TimestepProfile) and self.timesteps.scale is not None:
            return self.timesteps.scale
        return float(np.prod(self.denoiser.latent_shape)) / 2

    def _start(self, number: int, image: Any) -> Active:
        pixels = to_tensor(image, self.denoiser.image_spec)
        found = fingerprint(pixels)
        state = ClassifierState.empty(len(self.classes))
        sampler = TimestepSampler(self.timesteps, self.num_train_timesteps, hashed(self.seed, found))
        return Active(number, found, self.denoiser.encode(pixels[None])[0], state, self.policy.rounds(state, sampler))

    def _run(self, work: list[Work], measure: Callable[..., list[T]]) -> tuple[Sequence[Work], list[T]]:
        """The first batch with its measures; if memory runs out, the batch size is halved for good."""
        while True:
            batch = first_batch(work, self.batch_size)
            engine = self.engines[-1 if batch[0].trial.final else 0]
            try:
                return batch, measure(engine, batch, self.batch_size)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not out_of_memory(error) or self.batch_size <= 1:
                    raise
                self.batch_size //= 2

    def _gaps(self, errors: np.ndarray, weights: np.ndarray, order: Sequence[int] | np.ndarray) -> np.ndarray:
        """What probabilities are made of: evidence where weights were fitted, otherwise mean differences."""
        return distances(errors, weights, order, summed=self.fitted)

    def _decision(self, state: ClassifierState) -> Decision:
        order, weights = ranking(state), state.weights
        winner = int(order[0])
        margin, margin_error = paired_margin(state.errors, weights, winner, int(order[1]))
        tried = ~np.isnan(state.errors)
        return Decision(
            label=self.classes[winner],
            index=winner,
            ranking=tuple(map(int, order)),
            errors=state.errors,
            timesteps=tuple(trial.t for trial in state.trials),
            weights=weights,
            margin=margin,
            margin_error=margin_error,
            probabilities=probabilities(self._gaps(state.errors, weights, order), self.scale),
            pruned=~tried[:, -1],
            evaluations=int(tried.sum()),
        )

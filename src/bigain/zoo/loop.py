"""`bigain train`: follow a recipe to a model folder, through kills and restarts."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.images import to_tensors
from bigain.data.arrays import LabelledImages
from bigain.denoisers.base import ImageSpec
from bigain.denoisers.labelled import LabelledDenoiser, build_labelled, load_labelled, save_labelled
from bigain.denoisers.schedule import Schedule
from bigain.generation import Sampling
from bigain.profile import TimestepProfile
from bigain.zoo.card import Progress, accuracy, card_text, judge_samples, make_card, sample_sheet
from bigain.zoo.features import FeatureNet
from bigain.zoo.recipes import Recipe
from bigain.zoo.train import VALIDATION, Run, averaged, train_step, validation_loss


class Data(NamedTuple):
    """Training and test images of a run; `reserved` test images are left out of the evaluation."""

    train: LabelledImages
    test: LabelledImages
    reserved: np.ndarray
    features: FeatureNet | None


@dataclass(frozen=True)
class Intervals:
    """How often things happen, in steps, and how large the evaluations are."""

    note: int = 100  # a point of the curve, and a checkpoint
    look: int = 2000  # a sample sheet and a quick accuracy
    quick: int = 100  # test images of the quick accuracy
    profile: int = 400  # held-out training images that timesteps and weights are fitted on
    final: int = 1000  # test images of the card's accuracy
    samples: int = 500  # generated images of the card
    sampling: Sampling = Sampling()  # noqa: RUF009 - frozen


AFFORDABLE = 75_000  # images times classes that are judged
SMOKE = Intervals(note=4, look=8, quick=2, profile=10, final=4, samples=10, sampling=Sampling(num_inference_steps=2))


class Trainer:
    """One run in one folder: `checkpoint.pt` while it goes on, model, card and samples at the end."""

    def __init__(self, recipe: Recipe, data: Data, out: Path, intervals: Intervals | None = None) -> None:
        self.recipe, self.data, self.out, self.intervals = recipe, data, out, intervals or Intervals()
        torch.manual_seed(recipe.seed)
        classes = data.train.classes
        labelled = build_labelled(recipe.family, recipe.architecture, len(classes), recipe.prompt_tokens)
        self.denoiser = LabelledDenoiser(labelled, Schedule(**recipe.schedule), ImageSpec(*recipe.image_spec), classes)
        self.run = Run.start(recipe, labelled)
        out.mkdir(parents=True, exist_ok=True)
        if self.checkpoint.is_file():
            self.run.load(self.checkpoint)

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.pt"

    @property
    def samples(self) -> int:
        return self.run.step * self.recipe.batch

    def learn(self, stop_after: int | None = None, progress: Callable[["Trainer", float], None] | None = None) -> None:
        """Train to the recipe's end, or to `stop_after` samples: the schedule stays that of the whole recipe."""
        end = min(self.recipe.samples, stop_after or self.recipe.samples) // self.recipe.batch
        if self.run.step >= end:
            return
        latents = self.denoiser.encode(to_tensors(list(self.data.train.images), self.denoiser.image_spec))
        labels = torch.from_numpy(self.data.train.labels)
        cut = len(latents) - min(VALIDATION, len(latents) // 4)
        losses: list[float] = []
        while self.run.step < end:
            started = time.process_time()
            losses.append(train_step(self.run, self.denoiser.schedule, latents[:cut], labels[:cut]))
            self.run.seconds += time.process_time() - started
            if self.run.step % self.intervals.note == 0 or self.run.step == end:
                self._note(losses, latents[cut:], labels[cut:])
                losses = []
            if self.run.step % self.intervals.look == 0:
                self._look()
            if progress is not None:
                progress(self, losses[-1] if losses else self.run.curve[-1]["loss"])

    def _note(self, losses: list[float], latents: Tensor, labels: Tensor) -> None:
        found = validation_loss(self.run, self.denoiser.schedule, latents, labels)
        point = {"samples": self.samples, "loss": float(np.mean(losses)), "validation": found}
        self.run.curve.append(point | {"seconds": self.run.seconds})
        self.run.save(self.checkpoint)

    def _look(self) -> None:
        """A sample sheet and a quick accuracy, to follow the run."""
        with averaged(self.run):
            policy = "stages(trials=(1, 10), keep=(20, 1))" if self.many else "exhaustive(10)"
            rows = self.rows()[: self._affordable(self.intervals.quick, AFFORDABLE // 10)]
            share = accuracy(self.denoiser, self.data.test, rows, policy).top1
            sheet = sample_sheet(self.denoiser, 2 if self.many else 5, self.intervals.sampling)
        sheet.save(self.out / f"samples-{self.samples:08d}.png")
        with (self.out / "looks.jsonl").open("a") as file:
            file.write(json.dumps({"samples": self.samples, "accuracy": share.value, "n": share.n}) + "\n")

    @property
    def many(self) -> bool:
        """Whether there are too many classes to try all of them often."""
        return len(self.denoiser.classes) > 20

    def _affordable(self, images: int, most: int = AFFORDABLE) -> int:
        """So many images, or fewer where there are many classes: `most` is the product of both."""
        return min(images, max(10, most // len(self.denoiser.classes)))

    def rows(self) -> list[int]:
        """Test images of the evaluation, in a fixed random order."""
        order = np.random.default_rng(0).permutation(len(self.data.test.labels))
        return [int(i) for i in order if i not in set(self.data.reserved.tolist())]

    def _profile(self, model: LabelledDenoiser) -> TimestepProfile:
        """Timesteps and weights, fitted on held-out training images."""
        images, labels = self.data.train.images, self.data.train.labels
        rows = range(len(images) - self._affordable(self.intervals.profile), len(images))
        classifier = DiffusionClassifier(model, range(len(model.classes)))
        return classifier.fit([images[i] for i in rows], [int(labels[i]) for i in rows])

    def finish(self, progress: Progress | None = None) -> dict[str, Any]:
        """Save float16 weights, evaluate exactly what was saved, and write the card."""
        with averaged(self.run):
            save_labelled(self.out, self.denoiser, self.recipe.family)
        model = load_labelled(self.out)
        model.profile = self._profile(model)
        save_labelled(self.out, model, self.recipe.family)
        rows = self.rows()[: self._affordable(self.intervals.final)]
        policy = f"stages(trials=(5, 20), keep={(20, 5) if self.many else (5, 1)})"
        found = accuracy(model, self.data.test, rows, policy, progress)
        judged = None
        if self.data.features is not None:
            test = to_tensors([self.data.test.images[i] for i in self.rows()], model.image_spec)
            judged = judge_samples(model, self.data.features, test, self.intervals.samples, self.intervals.sampling)
        sample_sheet(model, 10, self.intervals.sampling).save(self.out / "samples.png")
        facts = {
            "parameters": sum(p.numel() for p in model.labelled.parameters()),
            "samples_seen": self.samples,
            "seconds": self.run.seconds,
            "curve": self.run.curve,
        }
        card = make_card(asdict(self.recipe), facts, found, judged, self.intervals.sampling)
        (self.out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
        (self.out / "card.md").write_text(card_text(card))
        return card

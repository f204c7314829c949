"""Which noises should the trials of a classifier have? Schemes at equal numbers of evaluations, on the same images.

Each trial at a timestep of its own; half as many timesteps with two noises, or with a noise and its mirror image;
noises that all images share; and shared noises that were chosen on training images. Every class is tried on every
trial, and all weights are equal. `python benchmarks/noises.py fashion-dit` writes
`benchmarks/results/noises-fashion-dit.json`.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from policies import DATA, FASHION, SEED, report_images
from rich.console import Console
from rich.progress import track
from rich.table import Table

import bigain
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler, Trial, even_timesteps
from bigain.classify.weights import make_table, select
from bigain.data import load_data
from bigain.experiments.machine import environment
from bigain.metrics.intervals import wilson
from bigain.metrics.paired import share_difference

RESULTS = Path(__file__).parent / "results"
COUNT, TRAINING = 300, 200  # images: to report on, and to choose noises on
BUDGETS = (4, 10)  # trials
CANDIDATES = tuple(Trial(t, number) for number in range(8) for t in even_timesteps(1000, 5))  # of chosen noises
PLAIN = "a timestep for each trial"


class Given(NamedTuple):
    """A policy: every class on these trials."""

    trials: tuple[Trial, ...]

    def rounds(self, state: ClassifierState, sampler: TimestepSampler) -> Iterator[list[Trial]]:
        yield list(self.trials)
        state.keep(state.best(1))


class Shared(bigain.DiffusionClassifier):
    """A classifier whose noises are the same for all images."""

    def _start(self, number: int, image: Any) -> Any:
        active = super()._start(number, image)
        active.image = 0
        return active


def schemes(budget: int) -> dict[str, tuple[Trial, ...]]:
    """Trials of images with noises of their own."""
    half = even_timesteps(1000, budget // 2)
    return {
        PLAIN: tuple(Trial(t, 0) for t in even_timesteps(1000, budget)),
        "half as many timesteps, two noises each": tuple(Trial(t, number) for t in half for number in (0, 1)),
        "half as many timesteps, a noise and its mirror": tuple(Trial(t, 0, sign) for t in half for sign in (1, -1)),
    }


def errors_of(kind: type, denoiser: Any, images: Sequence[Any], trials: tuple[Trial, ...], what: str) -> np.ndarray:
    """(n, K, R)."""
    classifier = kind(denoiser, range(10), Given(trials))
    found: list[Any] = [None] * len(images)
    for number, decision in track(classifier.stream(images), what, len(images), console=Console(stderr=True)):
        found[number] = decision.errors
    return np.stack(found)


def training(name: str) -> tuple[list[Any], np.ndarray]:
    """Images that the model was not trained on, from the end of its training data."""
    text, _ = DATA.get(name, FASHION)
    examples = load_data(text.replace("'test'", "'train'")).examples[-TRAINING:]
    return [example.image for example in examples], np.array([example.labels[0] for example in examples])


def main(name: str) -> None:
    denoiser, examples = bigain.load(name), report_images(name)[:COUNT]
    images, truth = [example.image for example in examples], np.array([example.labels[0] for example in examples])
    own, labels = training(name)
    known = errors_of(Shared, denoiser, own, CANDIDATES, "choosing noises")
    tried = errors_of(Shared, denoiser, images, CANDIDATES, "chosen noises")
    right: dict[tuple[str, int], np.ndarray] = {}
    for budget in BUDGETS:
        for scheme, trials in schemes(budget).items():
            errors = errors_of(bigain.DiffusionClassifier, denoiser, images, trials, f"{scheme}, {budget}")
            right[scheme, budget] = errors.mean(2).argmin(1) == truth
        trials = schemes(budget)[PLAIN]
        errors = errors_of(Shared, denoiser, images, trials, f"shared noises, {budget}")
        right["a timestep for each trial, noises shared by all images", budget] = errors.mean(2).argmin(1) == truth
        chosen, _ = select(make_table(known, labels), budget, 8.0)
        right["shared noises chosen on training images", budget] = tried[..., chosen].mean(2).argmin(1) == truth
    write(name, right, environment(denoiser))


def write(name: str, right: dict[tuple[str, int], np.ndarray], facts: dict[str, Any]) -> None:
    rows = []
    for (scheme, budget), found in right.items():
        share, change = wilson(int(found.sum()), len(found)), share_difference(found, right[PLAIN, budget])
        rows.append({
            "scheme": scheme, "trials": budget,
            "accuracy": {"value": share.value, "low": share.low, "high": share.high},
            "change": {"value": change.value, "low": change.low, "high": change.high},
        })  # fmt: skip
    record = {"model": name, "n": COUNT, "seed": SEED, "training": TRAINING, "rows": rows, "facts": facts}
    (RESULTS / f"noises-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    table = Table(title=f"{name}, n = {COUNT}")
    for head in ("scheme", "trials", "accuracy", f"against {PLAIN}"):
        table.add_column(head)
    for row in rows:
        value, change = 100 * row["accuracy"]["value"], {key: 100 * number for key, number in row["change"].items()}
        against = f"{change['value']:+.1f} [{change['low']:+.1f}, {change['high']:+.1f}]"
        table.add_row(row["scheme"], str(row["trials"]), f"{value:.1f} %", against)
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=["fashion-dit", "fashion-unet", "cifar-unet"])
    main(parser.parse_args().model)

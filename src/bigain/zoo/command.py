"""What `bigain train` does, with its progress display."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from bigain.backbones.denoiser import Frame
from bigain.classify.images import to_tensors
from bigain.data.arrays import LabelledImages
from bigain.data.fashion_mnist import fashion_mnist, fashion_sample, sample_rows
from bigain.metrics.intervals import wilson
from bigain.progress import progress_bars
from bigain.registry import miss
from bigain.zoo.features import FeatureNet, load_features, predict, save_features, train_features
from bigain.zoo.loop import SMOKE, Data, Trainer
from bigain.zoo.recipes import RECIPES
from bigain.zoo.shelf import SHELF

FEATURES = "fashion-features"


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    data: str | None = None
    seed: int = 0
    stop_after: int | None = None
    threads: int | None = None
    smoke: bool = False


def train_named(name: str, out: Path, options: Options, console: Console) -> None:
    """Train a model by name into a folder."""
    if name not in (*RECIPES, FEATURES):
        raise ValueError(miss("model to train", name, (*RECIPES, FEATURES)))
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    found = smoke_data() if options.smoke else whole_data(options.data)
    with progress_bars(console) as bars:
        if name == FEATURES:
            finish_features(out, found, options.seed, 1 if options.smoke else 6, bars)
            return
        recipe = replace(RECIPES[name], seed=options.seed)
        if options.smoke:
            recipe = replace(recipe, samples=16 * 12, batch=16, warmup=4)
        trainer = Trainer(recipe, found, out, SMOKE if options.smoke else None)
        learn(trainer, options.stop_after, bars)
        judging = bars.add_task("judging", total=None)
        trainer.finish(lambda what, done, of: bars.update(judging, description=what, completed=done, total=of))


def learn(trainer: Trainer, stop_after: int | None, bars: Progress) -> None:
    task = bars.add_task(trainer.recipe.name, total=stop_after or trainer.recipe.samples, completed=trainer.samples)
    started, first = time.perf_counter(), trainer.samples

    def show(trainer: Trainer, loss: float) -> None:
        rate = (trainer.samples - first) / (time.perf_counter() - started)
        text = f"{trainer.recipe.name}  loss {loss:.4f}  {rate:.0f} images/s"
        bars.update(task, completed=trainer.samples, description=text)
        if not bars.console.is_terminal and trainer.run.step % trainer.rhythm.note == 0:
            bars.console.print(f"{trainer.samples} samples: {text}")  # a log file shows no bar

    trainer.learn(stop_after, show)


def whole_data(root: str | None) -> Data:
    features = SHELF / FEATURES
    network = load_features(features) if (features / "config.json").is_file() else None
    return Data(fashion_mnist("train", root), fashion_mnist("test", root), sample_rows(), network)


def smoke_data() -> Data:
    """The bundled images, split: enough to go through every step, too few to learn from."""
    sample = fashion_sample()
    train = LabelledImages(sample.images[:400], sample.labels[:400], sample.classes)
    test = LabelledImages(sample.images[400:], sample.labels[400:], sample.classes)
    return Data(train, test, np.array([], dtype=int), FeatureNet().eval())


def finish_features(out: Path, data: Data, seed: int, epochs: int, bars: Progress) -> None:
    """Train the feature network, test it on all test images, and write its card."""
    frame = Frame(28, 1, 2)
    images, labels = to_tensors(list(data.train.images), frame), torch.from_numpy(data.train.labels)
    task = bars.add_task(FEATURES, total=epochs * len(images))

    def show(rows: int, loss: float) -> None:
        bars.update(task, advance=rows, description=f"{FEATURES}  loss {loss:.4f}")

    started = time.perf_counter()
    save_features(out, train_features(images, labels, epochs=epochs, seed=seed, progress=show))
    seconds = time.perf_counter() - started
    _, predicted = predict(load_features(out), to_tensors(list(data.test.images), frame))
    share = wilson(int((predicted.numpy() == data.test.labels).sum()), len(data.test.labels))
    text = f"A small classifier of Fashion-MNIST whose features serve FD-fashion: {share} on the test set"
    card = {
        "name": FEATURES,
        "summary": text,
        "accuracy": share._asdict(),
        "epochs": epochs,
        "seed": seed,
        "seconds": seconds,
    }
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    (out / "card.md").write_text(f"# {FEATURES}\n\n{text}. Trained by `bigain train {FEATURES}` in {seconds:.0f} s.\n")

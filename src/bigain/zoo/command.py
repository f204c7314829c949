"""`bigain train`, with its progress bar."""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from bigain.classify.images import to_tensors
from bigain.data.arrays import LabelledImages
from bigain.data.cifar10 import cifar10
from bigain.data.fashion_mnist import fashion_mnist, fashion_sample, sample_rows
from bigain.data.quickdraw import quickdraw
from bigain.data.quickdraw import sample_rows as quickdraw_rows
from bigain.denoisers.base import ImageSpec
from bigain.metrics.intervals import wilson
from bigain.progress import progress_bars
from bigain.registry import miss
from bigain.zoo.catalog import MODELS
from bigain.zoo.features import FeatureNet, load_features, predict, save_features, train_features
from bigain.zoo.loop import SMOKE, Data, Trainer
from bigain.zoo.recipes import FEATURES, RECIPES, FeatureRecipe


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    data: str | None = None
    seed: int = 0
    stop_after: int | None = None
    smoke: bool = False


def train_named(name: str, out: Path, options: Options, console: Console) -> None:
    """Train a model by name into a folder."""
    if name not in (*RECIPES, *FEATURES):
        raise ValueError(miss("model to train", name, (*RECIPES, *FEATURES)))
    if options.smoke and options.data:
        raise ValueError("--smoke uses the bundled images; leave out --data or --smoke")
    if name in FEATURES and options.stop_after:
        raise ValueError(f"--stop-after does not work with {name}, which is trained in whole epochs")
    asked = FEATURES[name] if name in FEATURES else RECIPES[name]
    found = smoke_data(asked.image_spec[1]) if options.smoke else training_data(asked.data, options.data)
    with progress_bars(console) as bars:
        if isinstance(asked, FeatureRecipe):
            finish_features(replace(asked, epochs=1) if options.smoke else asked, out, found, options.seed, bars)
            return
        recipe = replace(asked, seed=options.seed)
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
        if not bars.console.is_terminal and trainer.run.step % trainer.intervals.note == 0:
            bars.console.print(f"{trainer.samples} samples: {text}")  # a log file shows no bar

    trainer.learn(stop_after, show)


def training_data(name: str, root: str | None) -> Data:
    """A dataset's two splits, the bundled test rows, and the features for the distance of samples."""
    if name == "cifar-10":
        return Data(cifar10("train", root), cifar10("test", root), np.array([], dtype=int), shelved(name))
    if name == "quickdraw":
        return Data(quickdraw("train", root), quickdraw("test", root), quickdraw_rows(), shelved(name))
    return Data(fashion_mnist("train", root), fashion_mnist("test", root), sample_rows(), shelved(name))


def shelved(data: str) -> FeatureNet | None:
    """The feature network for a dataset, if there is one."""
    folder = MODELS / next(recipe.name for recipe in FEATURES.values() if recipe.data == data)
    return load_features(folder) if (folder / "config.json").is_file() else None


def smoke_data(channels: int = 1) -> Data:
    """The bundled images, split: enough to run every step, too few to train on."""
    sample = fashion_sample()
    train = LabelledImages(sample.images[:400], sample.labels[:400], sample.classes)
    test = LabelledImages(sample.images[400:], sample.labels[400:], sample.classes)
    return Data(train, test, np.array([], dtype=int), FeatureNet(channels=channels).eval())


def finish_features(recipe: FeatureRecipe, out: Path, data: Data, seed: int, bars: Progress) -> None:
    """Train a feature network, test it on all test images, and write its card."""
    image_spec = ImageSpec(*recipe.image_spec)
    images, labels = to_tensors(list(data.train.images), image_spec), torch.from_numpy(data.train.labels)
    task = bars.add_task(recipe.name, total=recipe.epochs * len(images))

    def show(rows: int, loss: float) -> None:
        bars.update(task, advance=rows, description=f"{recipe.name}  loss {loss:.4f}")

    started = time.process_time()
    save_features(out, train_features(recipe, images, labels, seed=seed, progress=show))
    seconds = time.process_time() - started
    _, predicted = predict(load_features(out), to_tensors(list(data.test.images), image_spec))
    share = wilson(int((predicted.numpy() == data.test.labels).sum()), len(data.test.labels))
    text = f"A small classifier of {recipe.data} whose features serve FD-{recipe.short}: {share} on the test set"
    card = {
        "name": recipe.name,
        "summary": text,
        "accuracy": share._asdict(),
        "recipe": asdict(recipe),
        "seed": seed,
        "seconds": seconds,
    }
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    words = f"{text}. Trained by `bigain train {recipe.name}` in {seconds:.0f} s of processor time."
    (out / "card.md").write_text(f"# {recipe.name}\n\n{words}\n")

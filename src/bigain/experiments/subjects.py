"""The images of an experiment, its class conditions, and the subjects to generate."""

from collections.abc import Iterable
from typing import Any

from bigain.data import Dataset, load_data
from bigain.denoisers.base import Denoiser
from bigain.experiments.experiment import Experiment

REAL = 5000  # real images at most that generated ones are compared with


def class_conditions(denoiser: Denoiser, data: Dataset) -> tuple[list[str | int], str]:
    """The dataset's classes as this model takes them, and the template around them."""
    own = getattr(denoiser, "classes", None)
    if denoiser.by_text:
        return list(data.classes), data.prompts
    if own is not None:
        known = by_folder(own)
        names = [name if name in own else known.get(name) for name in data.classes]
        unknown = [name for name, found in zip(data.classes, names, strict=True) if found is None]
        if unknown:
            raise ValueError(f"unknown class {unknown[0]!r} of {data.name}. The model has: {', '.join(own)}")
        return [name for name in names if name is not None], "{}"
    if data.numbers is None:
        raise ValueError(f"{data.name} has no ImageNet label numbers, which this model needs")
    return list(data.numbers), "{}"


def by_folder(classes: Iterable[str | int]) -> dict[str, str]:
    """Classes by folder name, which has no slash: T-shirt_top is T-shirt/top."""
    return {str(name).replace("/", "_"): str(name) for name in classes}


def subjects(denoiser: Denoiser, data: Dataset, count: int) -> list[str | int]:
    """What to generate: captions if the dataset has them and the model takes text, otherwise its classes in turn."""
    if denoiser.by_text and any(example.captions for example in data.examples[:1]):
        captions = [caption for example in data.examples for caption in example.captions[:1]]
        return [captions[i % len(captions)] for i in range(count)]
    classes, prompts = class_conditions(denoiser, data)
    chosen: list[Any] = [prompts.format(name) if isinstance(name, str) else name for name in classes]
    return [chosen[i % len(chosen)] for i in range(count)]


def whole_data(experiment: Experiment) -> Dataset:
    """The dataset of the experiment, without the images it excludes."""
    data = load_data(experiment.data)
    return data if experiment.without is None else data.without(load_data(experiment.without).names)


def real_data(experiment: Experiment, whole: Dataset) -> Dataset:
    """The real images that generated ones are compared with."""
    return whole.subset(min(REAL, len(whole)), experiment.seed)


def chosen_data(experiment: Experiment, data: Dataset) -> Dataset:
    """The images to classify, in the order of the seed."""
    most = max((s.n for s in experiment.settings if "classify" in s.tasks), default=0)
    return data.subset(most, experiment.seed) if most else data

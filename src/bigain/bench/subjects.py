"""What a model is asked for on a data set: class conditions for classification, subjects for generation."""

from collections.abc import Iterable
from typing import Any

from bigain.backbones.denoiser import Denoiser
from bigain.data import Dataset


def class_conditions(denoiser: Denoiser, data: Dataset) -> tuple[list[str | int], str]:
    """The data set's classes as this model takes them, and the template around them."""
    own = getattr(denoiser, "classes", None)
    if denoiser.by_text:
        return list(data.classes), data.prompts
    if own is not None:
        known = by_folder(own)
        names = [name if name in own else known.get(name) for name in data.classes]
        strange = [name for name, found in zip(data.classes, names, strict=True) if found is None]
        if strange:
            raise ValueError(f"the model has no class {strange[0]!r} of {data.name}; it has {', '.join(own)}")
        return [name for name in names if name is not None], "{}"
    if data.numbers is None:
        raise ValueError(f"{data.name} has no ImageNet label numbers, which this class-conditional model needs")
    return list(data.numbers), "{}"


def by_folder(classes: Iterable[str | int]) -> dict[str, str]:
    """Classes by the names that folders of their images have, which hold no slash: T-shirt_top is T-shirt/top."""
    return {str(name).replace("/", "_"): str(name) for name in classes}


def subjects(denoiser: Denoiser, data: Dataset, count: int) -> list[str | int]:
    """What to generate: captions where the data set has them and the model reads, otherwise its classes in turn."""
    if denoiser.by_text and any(example.captions for example in data.examples[:1]):
        captions = [caption for example in data.examples for caption in example.captions[:1]]
        return [captions[i % len(captions)] for i in range(count)]
    classes, prompts = class_conditions(denoiser, data)
    chosen: list[Any] = [prompts.format(name) if isinstance(name, str) else name for name in classes]
    return [chosen[i % len(chosen)] for i in range(count)]

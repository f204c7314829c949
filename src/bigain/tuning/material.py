"""What a model is tuned on: classes, images to search with and to verify on, and what is generated."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bigain.classify.images import to_tensor
from bigain.denoisers.base import Denoiser
from bigain.generation import Sampling, generate
from bigain.registry import miss

SHOWN = 10  # classes at most that are told apart
# for models that take any text
PROMPTS = (
    "a photo of a cat", "a photo of a dog", "a photo of a car", "a photo of a house", "a photo of a tree",
    "a photo of a person", "a photo of a boat", "a photo of a bird", "a photo of a flower", "a photo of food",
)  # fmt: skip
OWN = 50_000  # number of the first image that the model generates to be classified
LEAST = 4  # images that can be divided


class Material(NamedTuple):
    """What the user gives; None for what the model itself provides."""

    images: Sequence[Any] | None = None
    labels: Sequence[str | int] | None = None
    prompts: Sequence[str | int] | None = None


class Sizes(NamedTuple):
    """How many images are classified and generated, to search with and to verify on."""

    images: int
    held_out: int
    generated: int
    held_out_generated: int


class Collected(NamedTuple):
    """What is measured on; None for a capability that is not asked for."""

    classes: tuple[str | int, ...]
    images: list[Tensor] | None
    held_images: list[Tensor] | None
    held_labels: list[int] | None
    subjects: tuple[str | int, ...] | None
    held_subjects: tuple[str | int, ...] | None
    source: str  # of the images, in words

    def mark(self) -> str:
        """A hash of all of it."""
        found = hashlib.sha256(repr((self.classes, self.subjects, self.held_subjects, self.held_labels)).encode())
        for image in [*(self.images or ()), *(self.held_images or ())]:
            found.update(image.contiguous().numpy().tobytes())
        return found.hexdigest()[:16]


def collect(
    denoiser: Denoiser, given: Material, sampling: Sampling, sizes: Sizes, tell: Callable[[str, int, int], None]
) -> Collected:
    """Everything that is measured on, as sizes say; a size of 0 leaves a capability out."""
    classes = usual_classes(denoiser, given.prompts)
    subjects = tuple(classes[i % len(classes)] for i in range(max(sizes.generated, sizes.held_out_generated)))
    generated, held = subjects[: sizes.generated], subjects[: sizes.held_out_generated]
    own = (classes, None, None, None, generated or None, held or None, "none")
    if not sizes.images:
        return Collected(*own)
    if given.images is None:
        if given.labels is not None:
            raise ValueError("labels need images; give both, or leave labels out")
        count = sizes.images + sizes.held_out
        images = own_images(denoiser, classes, count, sampling, tell)
        labels, source = None, f"{count} images that the model generated"
    else:
        images, labels, source = given_images(denoiser, given, classes, sizes)
    first = min(sizes.images, len(images) // 3)
    held_labels = None if labels is None else labels[first:]
    return Collected(classes, images[:first], images[first:], held_labels, generated or None, held or None, source)


def usual_classes(denoiser: Denoiser, prompts: Sequence[str | int] | None) -> tuple[str | int, ...]:
    """The prompts or classes that were given, or those of the model; some of them where there are many."""
    if prompts is not None:
        if isinstance(prompts, str) or len(prompts) < 2 or len(set(prompts)) < len(prompts):
            raise ValueError(f"prompts must be two different prompts or classes or more, got {prompts!r}")
        return tuple(prompts)
    own = getattr(denoiser, "classes", None)
    if own is not None:
        return spread(tuple(own))
    return PROMPTS if denoiser.by_text else spread(tuple(range(1000)))


def spread(classes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Some of many classes, evenly."""
    if len(classes) <= SHOWN:
        return classes
    return tuple(classes[i * len(classes) // SHOWN] for i in range(SHOWN))


def own_images(
    denoiser: Denoiser,
    classes: Sequence[str | int],
    count: int,
    sampling: Sampling,
    tell: Callable[[str, int, int], None],
) -> list[Tensor]:
    """Images that the uncompressed model generates of its classes in turn."""
    done = 0

    def progress(batch: Tensor) -> None:
        nonlocal done
        done += len(batch)
        tell("generating images to classify", done, count)

    subjects = [classes[i % len(classes)] for i in range(count)]
    return list(generate(denoiser, subjects, sampling, first=OWN, progress=progress))


def class_numbers(labels: Sequence[Any], count: int, classes: Sequence[str | int]) -> list[int]:
    """The numbers of the classes that labels name."""
    if len(labels) != count:
        raise ValueError(f"labels must have one element per image, got {len(labels)} for {count} images")
    unknown = [label for label in labels if label not in classes]
    if unknown:
        raise ValueError(miss("class", unknown[0], [str(name) for name in classes]))
    return [list(classes).index(label) for label in labels]


def given_images(
    denoiser: Denoiser, given: Material, classes: Sequence[str | int], sizes: Sizes
) -> tuple[list[Tensor], list[int] | None, str]:
    """The images that were given, as many as are needed, with the numbers of their classes."""
    images = list(given.images or ())
    if len(images) < LEAST:
        raise ValueError(f"images must be {LEAST} or more, most of them for verification, got {len(images)}")
    labels = None if given.labels is None else class_numbers(list(given.labels), len(images), classes)
    # in an order of its own, so that folders sorted by class are mixed
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).tolist()
    chosen = order[: sizes.images + sizes.held_out]
    tensors = [to_tensor(images[i], denoiser.image_spec) for i in chosen]
    return tensors, None if labels is None else [labels[i] for i in chosen], f"{len(chosen)} of {len(images)} images"

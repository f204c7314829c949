"""Checks of a classifier's arguments, before anything is computed."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from torch import Tensor

from bigain.checks import whole
from bigain.denoisers.base import Denoiser
from bigain.registry import miss

FEWEST = 10  # labelled images to measure anything with


def check_classes(classes: Any) -> tuple[str | int, ...]:
    """Names as strings, numbers as ints, in their order."""
    if isinstance(classes, AbstractSet):
        raise TypeError(f"classes must be ordered, got a {type(classes).__name__}; use sorted(classes)")
    if isinstance(classes, Mapping):
        raise TypeError(
            f"classes must be a list of names or numbers, got a {type(classes).__name__}; use list(classes) or "
            "list(classes.values())"
        )
    if isinstance(classes, np.ndarray | Tensor):
        classes = classes.tolist()
    if not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list of names or numbers, got {classes!r}")
    found = (classes,) if isinstance(classes, str) else tuple(plain_class(name) for name in classes)
    if len(found) < 2:
        raise ValueError(f"classes must have at least two elements, got {list(found)!r}")
    twice = {name for name in found if found.count(name) > 1} if len(set(found)) < len(found) else set()
    if twice:
        raise ValueError(f"classes must be unique, got {', '.join(map(repr, sorted(twice, key=str)))} more than once")
    return found


def plain_class(name: Any) -> str | int:
    """A name, or the number of a label."""
    if isinstance(name, str):
        return str(name)  # numpy's, too
    number = whole(name)
    if number is None:
        raise TypeError(f"a class must be a string or a label number, got {name!r}")
    return number


def check_different(classes: Sequence[str | int], denoiser: Denoiser) -> None:
    """Reject two names of one class, such as a name and its number, which would tie on every image."""
    known: dict[str | int, str | int] = {}
    for name in classes:
        same = known.setdefault(denoiser.class_key(name), name)
        if same != name:
            raise ValueError(f"classes must be unique, but {same!r} and {name!r} are the same class of this model")


def check_batch_size(size: Any, denoiser: Denoiser) -> int:
    if isinstance(size, str) and size == "auto":
        return denoiser.rows_at_once()
    number = whole(size)
    if number is None or number < 1:
        raise ValueError(f'batch_size must be an int of at least 1, or "auto", got {size!r}')
    return number


def check_final(final: Denoiser, denoiser: Denoiser) -> Denoiser:
    """The denoiser of the last rounds, if it sees the same latents and the same noise as the first."""
    for what in ("latent_shape", "image_spec", "schedule"):
        first, last = getattr(denoiser, what), getattr(final, what)
        if first != last:
            raise ValueError(f"final must have the same {what} as the denoiser, {first}, got {last}")
    return final


def check_unlabelled(images: Sequence[Any]) -> None:
    if len(images) < FEWEST:
        raise ValueError(f"at least {FEWEST} images are needed, better 100, got {len(images)}")


def check_labels(classes: Sequence[str | int], count: int, labels: Any) -> np.ndarray:
    """Class numbers of the labels, if there are enough of them to measure something: -> (n,)."""
    labels = labels.tolist() if isinstance(labels, np.ndarray | Tensor) else list(labels)
    if count != len(labels) or not count:
        raise ValueError(f"labels must have one element per image, got {len(labels)} for {count} images")
    unknown = [label for label in labels if label not in classes]
    if unknown:
        raise ValueError(miss("class", unknown[0], [str(name) for name in classes]))
    if count < FEWEST:
        raise ValueError(f"at least {FEWEST} labelled images are needed, better 100, got {count}")
    if len(set(labels)) < 2:
        raise ValueError(f"labels must name at least two classes, got {labels[0]!r} for all {count} images")
    return np.array([classes.index(label) for label in labels])

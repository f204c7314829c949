"""What a dataset is: named examples, the classes they belong to, and seeded subsets."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

from bigain.checks import check_seed, whole
from bigain.seeds import hashed

PROMPT = "a photo of a {}"


class Example(NamedTuple):
    """One image with its labels; its name is unique and stable, so that records can use it as a key."""

    name: str
    image: Any  # a path, a PIL image or a uint8 array
    labels: tuple[int, ...]  # numbers of classes: one, or any number where the dataset is multi-label
    captions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LazyExamples(Sequence[Example]):
    """Examples whose images are read one by one, on access."""

    names: Sequence[str]
    labels: Sequence[tuple[int, ...]]
    read: Callable[[int], Any]  # row -> image
    rows: Sequence[int]  # which row of the source each example is

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> "LazyExamples": ...
    def __getitem__(self, index: int | slice) -> "Example | LazyExamples":
        if isinstance(index, slice):
            return self.pick(range(*index.indices(len(self))))
        return Example(self.names[index], self.read(self.rows[index]), self.labels[index])

    def pick(self, places: Sequence[int]) -> "LazyExamples":
        names, labels = [self.names[i] for i in places], [self.labels[i] for i in places]
        return LazyExamples(names, labels, self.read, [self.rows[i] for i in places])


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a dataset."""

    name: str
    split: str
    classes: tuple[str, ...]
    examples: Sequence[Example]
    prompts: str = PROMPT  # the text of a class for models of text
    numbers: tuple[int, ...] | None = None  # the ImageNet label number of each class, for class-conditional models
    multilabel: bool = False
    note: str = ""  # what a reader of the results should know, such as images left out

    def __post_init__(self) -> None:
        if self.prompts.count("{}") != 1:
            raise ValueError(
                f'prompts must be a string with one {{}} for the class, such as "{PROMPT}", got {self.prompts!r}'
            )
        if self.numbers is not None and len(self.numbers) != len(self.classes):
            raise ValueError(f"{self.name}: {len(self.classes)} classes but {len(self.numbers)} label numbers")
        check_unique(f"class of {self.name}", self.classes)
        names, labels = columns(self.examples)
        if not names:
            raise ValueError(f"{self.name} {self.split} has no images")
        check_unique(f"example of {self.name}", names)
        known = range(len(self.classes))
        for name, own in zip(names, labels, strict=True):
            if not (self.multilabel or len(own) == 1) or any(k not in known for k in own):
                wanted = "labels" if self.multilabel else "one label"
                raise ValueError(f"{self.name}: {name} has the labels {own}, not {wanted} from 0 to {len(known) - 1}")

    def __len__(self) -> int:
        return len(self.examples)

    def subset(self, n: int, seed: int = 0) -> "Dataset":
        """The first n examples of a seeded order, so a smaller subset is the start of a larger one.

        With one label per image, the classes are balanced as far as possible. The order depends on the names only,
        not on the machine or on library versions.
        """
        number, seed = whole(n), check_seed(seed)
        if number is None or not 1 <= number <= len(self):
            raise ValueError(f"n must be from 1 to {len(self)}, the size of {self.name} {self.split}, got {n!r}")
        names, labels = columns(self.examples)
        places = seeded_order(names, seed)
        if not self.multilabel:
            places = in_rounds(places, labels)
        return replace(self, examples=pick(self.examples, places[:number]))

    @property
    def names(self) -> Sequence[str]:
        """Names of the examples, without reading an image."""
        return columns(self.examples)[0]

    def without(self, names: Collection[str]) -> "Dataset":
        """All examples except those with these names."""
        left_out = set(names)
        places = [i for i, name in enumerate(self.names) if name not in left_out]
        return replace(self, examples=pick(self.examples, places))

    def identity(self) -> dict[str, Any]:
        """The number of images and a hash of their names and labels, which identify this version of the dataset."""
        names, labels = columns(self.examples)
        content = json.dumps([self.classes, sorted(zip(names, labels, strict=True))])
        return {
            "images": len(names),
            "classes": len(self.classes),
            "hash": hashlib.sha256(content.encode()).hexdigest(),
        }

    def describe(self) -> str:
        """One line: name, split, numbers of images and classes."""
        text = f"{self.name} {self.split}: {len(self):,} images, {len(self.classes):,} classes"
        return text + ", several labels per image" * self.multilabel + f"; {self.note}" * bool(self.note)


def columns(examples: Sequence[Example]) -> tuple[Sequence[str], Sequence[tuple[int, ...]]]:
    """Names and labels, without reading an image."""
    if isinstance(examples, LazyExamples):
        return examples.names, examples.labels
    return [example.name for example in examples], [example.labels for example in examples]


def pick(examples: Sequence[Example], places: Sequence[int]) -> Sequence[Example]:
    return examples.pick(places) if isinstance(examples, LazyExamples) else tuple(examples[i] for i in places)


def seeded_order(names: Sequence[str], seed: int) -> list[int]:
    """Indices sorted by a hash of seed and name."""
    keys = [hashed(seed, name) for name in names]
    return sorted(range(len(names)), key=keys.__getitem__)


def in_rounds(places: Sequence[int], labels: Sequence[tuple[int, ...]]) -> list[int]:
    """The first of every class, then the second of every class, and so on; within a round the order stays."""
    seen: Counter[int] = Counter()
    rounds = {}
    for place in places:
        (label,) = labels[place]
        rounds[place] = seen[label]
        seen[label] += 1
    return sorted(places, key=rounds.__getitem__)


def check_unique(what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        name, count = Counter(names).most_common(1)[0]
        raise ValueError(f"names must be unique, got the {what} {name!r} {count} times")

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.data import Dataset, Example
from bigain.data.dataset import LazyExamples


def made(labels: list[int], classes: int = 4) -> Dataset:
    examples = [Example(f"image-{i}", np.full((2, 2), i, np.uint8), (label,)) for i, label in enumerate(labels)]
    return Dataset("toy", "test", tuple(f"class {k}" for k in range(classes)), examples)


def names(data: Dataset) -> list[str]:
    return [example.name for example in data.examples]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 5), st.data())
def test_subsets_nest_and_are_as_balanced_as_can_be(labels: list[int], seed: int, data: st.DataObject) -> None:
    toy = made(labels)
    n = data.draw(st.integers(1, len(labels)))
    subset = toy.subset(n, seed)
    assert len(subset) == n == len(set(names(subset)))
    assert names(subset) == names(toy.subset(len(labels), seed))[:n]
    counts, there = Counter(e.labels[0] for e in subset.examples), Counter(labels)
    most = max(counts.values())
    assert all(counts[k] >= min(there[k], most - 1) for k in there)  # a class with fewer has no more


@settings(deadline=None, max_examples=30)
@given(st.permutations(range(12)))
def test_the_draw_depends_on_the_names_alone(order: list[int]) -> None:
    toy = made([i % 3 for i in range(12)])
    shuffled = Dataset("toy", "test", toy.classes, [toy.examples[i] for i in order])
    assert names(shuffled.subset(7)) == names(toy.subset(7))


def test_the_order_is_fixed_for_good() -> None:
    # records are kept by these names: another order would judge other images under the same seed
    assert names(made([0, 1, 0, 1, 0, 0, 1, 2]).subset(8)) == [
        "image-3", "image-5", "image-7", "image-4", "image-1", "image-6", "image-0", "image-2"
    ]  # fmt: skip


def test_seeds_differ() -> None:
    toy = made([i % 4 for i in range(40)])
    assert names(toy.subset(20)) == names(toy.subset(20))
    assert len({tuple(names(toy.subset(20, seed))) for seed in range(5)}) == 5


def test_a_multi_label_subset_is_a_plain_draw() -> None:
    examples = [Example(f"image-{i}", None, tuple(range(i % 3))) for i in range(30)]
    toy = Dataset("toy", "val", ("a", "b"), examples, multilabel=True)
    assert names(toy.subset(10)) == names(toy.subset(30))[:10]
    assert toy.describe() == "toy val: 30 images, 2 classes, several labels per image"


@pytest.mark.parametrize("n", [0, -1, 5, 2.0, True])
def test_sizes_that_cannot_be_had(n: object) -> None:
    with pytest.raises(ValueError, match=r"^n must be from 1 to 4, the size of toy test, got "):
        made([0, 1, 2, 3]).subset(n)  # type: ignore[arg-type]


def test_lazy_examples_read_only_what_is_asked_for() -> None:
    read: list[int] = []

    def look(row: int) -> str:
        read.append(row)
        return f"picture {row}"

    labels = [(i % 2,) for i in range(6)]
    lazy = LazyExamples([f"row-{i}" for i in range(6)], labels, look, range(6))
    toy = Dataset("toy", "test", ("a", "b"), lazy)
    subset = toy.subset(4)
    assert read == []
    for example in subset.examples:
        row = int(example.name.removeprefix("row-"))
        assert example == Example(f"row-{row}", f"picture {row}", (row % 2,))
    assert [f"row-{row}" for row in read] == [example.name for example in subset.examples]
    assert [example.name for example in lazy[4:1:-2]] == ["row-4", "row-2"]
    assert lazy[-1].name == "row-5"
    with pytest.raises(IndexError):
        lazy[6]


def test_names_and_classes_must_differ() -> None:
    twice = [Example("one", None, (0,)), Example("two", None, (0,)), Example("two", None, (0,))]
    with pytest.raises(ValueError, match=r"^names must be unique, got the example of toy 'two' 2 times$"):
        Dataset("toy", "test", ("a",), twice)
    with pytest.raises(ValueError, match=r"^names must be unique, got the class of toy 'a' 3 times$"):
        Dataset("toy", "test", ("a", "a", "a"), [])


@pytest.mark.parametrize("labels", [(2,), (-1,), (None,), (), (0, 1)])
def test_labels_must_be_numbers_of_classes(labels: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^toy: one has the labels \(.*\), not one label from 0 to 1$"):
        Dataset("toy", "test", ("a", "b"), [Example("one", None, labels)])


def test_several_labels_only_where_the_data_set_says_so() -> None:
    examples = [Example("one", None, (0, 1)), Example("two", None, ())]
    assert len(Dataset("toy", "test", ("a", "b"), examples, multilabel=True)) == 2
    with pytest.raises(ValueError, match=r"^toy: three has the labels \(2,\), not labels from 0 to 1$"):
        Dataset("toy", "test", ("a", "b"), [Example("three", None, (2,))], multilabel=True)


def test_prompts_and_numbers_must_fit() -> None:
    with pytest.raises(ValueError, match=r'one \{\} for the class, such as "a photo of a \{\}", got \'a photo\'$'):
        Dataset("toy", "test", ("a",), [], prompts="a photo")
    with pytest.raises(ValueError, match=r"^toy: 1 classes but 2 label numbers$"):
        Dataset("toy", "test", ("a",), [], numbers=(1, 2))

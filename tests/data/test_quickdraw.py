import gzip
from pathlib import Path

import numpy as np
import pytest

from bigain.data import load_data
from bigain.data.quickdraw import CLASSES, EACH, make_sample, quickdraw, quickdraw_sample, sample_rows
from helpers import miniatures


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quickdraw")
    miniatures.quickdraw(folder)
    return folder


@pytest.mark.parametrize(("split", "drawings"), [("train", range(80)), ("test", range(80, 100))])
def test_reads_the_layout_of_the_package(root: Path, split: str, drawings: range) -> None:
    found = quickdraw(split, root)
    assert len(found.classes) == 345
    assert found.images.shape == (345 * len(drawings), 28, 28)
    assert found.images.max() == 255
    assert found.labels.tolist() == [*range(345)] * len(drawings)
    assert found.images.reshape(-1, 784).argmax(1).tolist() == [place for place in drawings for _ in range(345)]


def test_fewer_classes_are_nested_and_keep_their_drawings(root: Path) -> None:
    whole, some, few = (load_data(f"quickdraw(root={str(root)!r}, classes={n})") for n in (345, 37, 10))
    assert set(few.classes) < set(some.classes) < set(whole.classes)
    assert len(few.examples) == 10 * 20
    assert list(few.classes) == sorted(few.classes, key=CLASSES.index)
    names = {example.name: whole.classes[example.labels[0]] for example in whole.examples}
    assert all(names[example.name] == some.classes[example.labels[0]] for example in some.examples)
    for wrong in (0, 346, 1.5):
        with pytest.raises(ValueError, match="classes must be an int from 1 to 345, got"):
            load_data(f"quickdraw-sample(classes={wrong})")


def test_the_bundled_sample_is_the_beginning_of_the_test_split(root: Path) -> None:
    found, test = quickdraw_sample(), quickdraw("test", root)
    assert found.images.shape == (690, 28, 28)
    assert found.labels.tolist() == test.labels[:690].tolist()
    assert np.array_equal(make_sample(test)["images"], test.images[:690])
    names = [example.name for example in load_data("quickdraw-sample").examples]
    assert names == [f"test-{row:05d}" for row in sample_rows()]
    assert load_data(f"quickdraw(root={str(root)!r})").without(names).examples[0].name == "test-00690"


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["[" + ",".join(["0"] * 784) + "]"] * (EACH - 1), "must have 100 lines of 784 numbers, got 99 lines"),
        (["[0, 1]"] * EACH, r"must have 100 lines of 784 numbers, got 100 lines, those read of shape \(2,\)"),
        (["[" + ",".join(["2"] * 784) + "]"] * EACH, "must have numbers from 0 to 1, got 2.0 to 2.0"),
        (["[" + ",".join(["NaN"] * 784) + "]"] * EACH, "must have numbers from 0 to 1, got nan to nan"),
        (["[0, 1"] * EACH, "is not a complete gzip file of drawings"),
        (['{"a": 1}'] * EACH, "is not a complete gzip file of drawings"),
        (None, "is not a complete gzip file of drawings"),
    ],
)
def test_damaged_files_are_named(root: Path, lines: list[str] | None, error: str) -> None:
    path = root / f"{CLASSES[0]}.ndjson.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] if lines is None else gzip.compress("\n".join(lines).encode()))
    try:
        with pytest.raises(ValueError, match=rf"aircraft carrier\.ndjson\.gz {error}"):
            quickdraw("test", root)
    finally:
        path.write_bytes(whole)


def test_an_incomplete_folder_names_some_of_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / f"{CLASSES[0]}.ndjson.gz").touch()
    with pytest.raises(FileNotFoundError, match=r"lacks airplane.*, [^,]* and 336 more\): expected .*quickdraw\.js"):
        quickdraw("test", tmp_path)

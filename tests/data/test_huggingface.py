import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bigain.data import load_data
from helpers import miniatures

datasets = pytest.importorskip("datasets")


def save(root: Path, columns: dict[str, list[Any]], **features: Any) -> str:
    table = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    table.save_to_disk(root / "saved")
    return f"huggingface({str(root / 'saved')!r})"


KINDS = {"names": ["cat", "dog"]}


def test_columns_are_found_by_their_types(tmp_path: Path) -> None:
    spec = miniatures.huggingface(tmp_path)
    data = load_data(spec)
    assert data.classes == ("cat", "dog", "ant")
    assert [e.labels[0] for e in data.examples] == [0, 1, 2, 0, 1, 0]
    assert data.examples[4].name == "test-000004"
    assert np.array_equal(np.asarray(data.examples[4].image), miniatures.pixels(4, 12, 10, 3))
    assert len(load_data(spec.replace(")", ", split='train')"))) == 2
    with pytest.raises(ValueError, match=r"^unknown .*saved split 'val'. Available: test, train$"):
        load_data(spec.replace(")", ", split='val')"))


def test_one_table_says_its_own_split(tmp_path: Path) -> None:
    picture = [{"bytes": b"", "path": None}]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(**KINDS)})
    table = datasets.Dataset.from_dict({"image": picture, "label": [0]}, features=features, split="train")
    table.save_to_disk(tmp_path / "saved")
    assert load_data(f"huggingface({str(tmp_path / 'saved')!r}, split='train')").examples.names == ["train-000000"]
    with pytest.raises(ValueError, match=r"^unknown .*saved split 'test'. Available: train$"):
        load_data(f"huggingface({str(tmp_path / 'saved')!r})")


def test_images_are_read_one_by_one(tmp_path: Path) -> None:
    broken = {"bytes": b"no image at all", "path": None}
    whole = (miniatures.write_image(tmp_path / "a.png")).read_bytes()
    pictures = [{"bytes": whole, "path": None}, broken, None]
    kinds = datasets.ClassLabel(**KINDS)
    data = load_data(save(tmp_path, {"image": pictures, "label": [0, 1, 1]}, image=datasets.Image(), label=kinds))
    assert len(data.subset(3)) == 3
    assert data.examples[0].image.size == (10, 12)
    with pytest.raises(ValueError, match=r"^cannot read row 1 of test as an image: "):
        data.examples[1]
    with pytest.raises(ValueError, match=r"^row 2 of test has no image$"):
        data.examples[2]


def test_several_labels(tmp_path: Path) -> None:
    picture = [{"bytes": b"", "path": None}] * 3
    kinds = datasets.List(datasets.ClassLabel(**KINDS))
    spec = save(tmp_path, {"image": picture, "labels": [[1, 0], [], [1]]}, image=datasets.Image(), labels=kinds)
    data = load_data(spec)
    assert data.multilabel
    assert list(data.examples.labels) == [(1, 0), (), (1,)]  # type: ignore[attr-defined]


def test_one_of_several_columns_of_labels(tmp_path: Path) -> None:
    picture = [{"bytes": b"", "path": None}] * 2
    columns = {"image": picture, "fine": [0, 2], "coarse": [1, 1]}
    fine, coarse = datasets.ClassLabel(names=["a", "b", "c"]), datasets.ClassLabel(**KINDS)
    spec = save(tmp_path, columns, image=datasets.Image(), fine=fine, coarse=coarse)
    assert load_data(spec.replace(")", ", label='coarse')")).classes == ("cat", "dog")
    assert load_data(spec.replace(")", ", label='fine')")).examples.labels == [(0,), (2,)]
    for wrong in (spec, spec.replace(")", ", label='image')")):
        with pytest.raises(ValueError, match=r"found 1 and [20]; choose the labels with label='column', or cast"):
            load_data(wrong)


def test_unlabelled_rows_are_refused(tmp_path: Path) -> None:
    picture = [{"bytes": b"", "path": None}] * 2
    kinds = datasets.ClassLabel(**KINDS)
    spec = save(tmp_path, {"image": picture, "label": [1, None]}, image=datasets.Image(), label=kinds)
    with pytest.raises(ValueError, match=r"test-000001 has the labels \(None,\), not one label from 0 to 1"):
        load_data(spec)


def test_columns_that_do_not_fit(tmp_path: Path) -> None:
    spec = save(tmp_path, {"text": ["a"], "label": [1]}, text=datasets.Value("string"), label=datasets.Value("int64"))
    message = r"has the columns text, label; expected one of type Image and one of type ClassLabel .* found 0 and 0; "
    with pytest.raises(ValueError, match=message):
        load_data(spec)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"was not written by save_to_disk; folder\('.*'\) reads subfolders of images"):
        load_data(f"huggingface({str(tmp_path)!r})")


def test_the_package_is_imported_only_when_needed_and_the_extra_is_named() -> None:
    code = (
        "import sys, bigain.data\n"
        "print([name for name in ('datasets', 'scipy.io', 'diffusers') if name in sys.modules])\n"
        "sys.modules['datasets'] = None\n"
        "try: bigain.data.load_data(\"huggingface('cifar10')\")\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[]",
        "Hugging Face datasets need the package datasets: pip install bigain[datasets]",
    ]

import json
from pathlib import Path

import pytest

from bigain.data import load_data
from helpers import miniatures


def test_reads_the_official_layout(tmp_path: Path) -> None:
    data = load_data(miniatures.coco(tmp_path))
    assert data.classes == ("person", "car", "dog", "toothbrush")
    assert data.multilabel
    assert {e.name: e.labels for e in data.examples} == {
        "000000000139": (0, 2),
        "000000000285": (3,),
        "000000000632": (0, 1),
    }
    assert data.examples[0].captions == ("Picture 139, once.", "Picture 139, again.")
    assert data.examples[0].image == tmp_path / "val2017/000000000139.jpg"


def test_images_without_labels_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    spec = miniatures.coco(tmp_path)
    assert load_data(spec).describe() == (
        "coco val: 3 images, 4 classes, several labels per image; "
        "2 images without labels are left out; unlabelled=True keeps them"
    )
    whole = load_data(spec.replace(")", ", unlabelled=True)"))
    assert whole.describe() == "coco val: 5 images, 4 classes, several labels per image"
    assert whole.examples[-1].labels == ()
    assert whole.examples[-1].captions == ("Picture 776, once.", "Picture 776, again.")


def test_missing_files_are_named(tmp_path: Path) -> None:
    spec = miniatures.coco(tmp_path)
    (tmp_path / "val2017/000000000285.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of the 3 images .*instances_val2017.json lists.*000000000285\.jpg"):
        load_data(spec)
    (tmp_path / "annotations/captions_val2017.json").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"lacks annotations/captions_val2017\.json\): expected val2017/\*\.jpg"
    ):
        load_data(spec)


def test_broken_and_foreign_annotations(tmp_path: Path) -> None:
    spec = miniatures.coco(tmp_path)
    file = tmp_path / "annotations/instances_val2017.json"
    whole = file.read_text()
    file.write_text(whole[:-5])
    with pytest.raises(ValueError, match=r"instances_val2017\.json is not JSON: .*; unpack it again"):
        load_data(spec)
    file.write_text(json.dumps({"images": []}))
    with pytest.raises(
        ValueError, match="not an official COCO file: expected annotations, a list of objects with image_id"
    ):
        load_data(spec)
    for old, new, error in (
        ('"category_id"', '"kind"', "expected annotations, a list of objects with image_id, category_id"),
        ('"category_id": 3', '"category_id": 4711', "an annotation has the unknown category 4711"),
    ):
        assert old in whole
        file.write_text(whole.replace(old, new))
        with pytest.raises(ValueError, match=error):
            load_data(spec)

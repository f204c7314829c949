"""Folders and CSV files of users."""

from pathlib import Path

import pytest

from bigain.data import load_data
from helpers import miniatures


def test_sub_folders_are_classes(tmp_path: Path) -> None:
    root = tmp_path / "my pets"
    data = load_data(miniatures.folder(root))
    assert data.classes == ("ant", "dog", "tabby cat")
    assert [(e.name, e.labels) for e in data.examples] == [
        ("ant/1.webp", (0,)),
        ("dog/1.png", (1,)),
        ("dog/2.png", (1,)),
        ("tabby cat/1.png", (2,)),
        ("tabby cat/more/1.JPG", (2,)),
    ]
    assert data.describe() == "my pets all: 5 images, 3 classes"


def test_an_empty_class_is_a_class_and_hidden_folders_are_not(tmp_path: Path) -> None:
    spec = miniatures.folder(tmp_path)
    (tmp_path / "bird").mkdir()
    miniatures.write_image(tmp_path / ".trash/1.png")
    miniatures.write_image(tmp_path / "overview.png")
    assert load_data(spec).classes == ("ant", "bird", "dog", "tabby cat")
    assert len(load_data(spec)) == 5


def test_prompts_of_ones_own(tmp_path: Path) -> None:
    spec = miniatures.folder(tmp_path).replace(")", ", prompts='a drawing of a {}')")
    assert load_data(spec).prompts == "a drawing of a {}"


def test_folders_without_images(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^no folder .*nowhere$"):
        load_data(f"folder({str(tmp_path / 'nowhere')!r})")
    miniatures.write_image(tmp_path / "loose.png")
    with pytest.raises(
        ValueError, match=r"^no images in .*: expected a subfolder for each class, such as .*cat/1\.jpg"
    ):
        load_data(f"folder({str(tmp_path)!r})")


def write_table(root: Path, *lines: str, first: str = "path,label") -> str:
    for name in ("a.png", "b.png", "c.png"):
        miniatures.write_image(root / name)
    (root / "list.csv").write_text("\n".join([first, *lines]) + "\n", encoding="utf-8-sig")
    return f"csv({str(root / 'list.csv')!r})"


def test_one_label_a_line(tmp_path: Path) -> None:
    data = load_data(write_table(tmp_path, "a.png,dog", f"{tmp_path / 'b.png'},cat", "c.png,dog"))
    assert data.classes == ("cat", "dog")
    assert not data.multilabel
    assert [e.labels for e in data.examples] == [(1,), (0,), (1,)]
    assert [e.image for e in data.examples] == [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png"]
    assert data.describe() == "list all: 3 images, 2 classes"


def test_several_labels_and_captions(tmp_path: Path) -> None:
    lines = ["dog|cat,a.png,Two animals.", "ant,b.png,"]
    data = load_data(write_table(tmp_path, *lines, first="label,path,caption"))
    assert data.multilabel
    assert [(e.name, e.labels, e.captions) for e in data.examples] == [
        ("a.png", (2, 1), ("Two animals.",)),
        ("b.png", (0,), ()),
    ]


@pytest.mark.parametrize(
    ("first", "line", "message"),
    [
        ("file,kind", "a.png,dog", r"list\.csv must have the columns path and label, got file, kind"),
        ("path,label", "a.png,", r"list\.csv, line 2: expected a path and unique labels, got \{'path': 'a\.png'"),
        ("path,label", ",dog", r"list\.csv, line 2: expected a path"),
        ("path,label", "a.png", r"list\.csv, line 2: expected a path"),
        ("path,label", "a.png,dog|", r"list\.csv, line 2: expected a path"),
        ("path,label", "a.png,dog|dog", r"list\.csv, line 2: expected a path and unique labels"),
        ("path,label", "", r"list\.csv lists no images"),
        ("path,label", "a.png,dog\na.png,cat", r"names must be unique, got the example of list 'a\.png' 2 times"),
    ],
)
def test_tables_that_cannot_be_read(first: str, line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        load_data(write_table(tmp_path, line, first=first))


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"^1 of the 2 images that .*list\.csv lists are missing, first .*d\.png"
    ):
        load_data(write_table(tmp_path, "a.png,dog", "d.png,cat"))
    with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
        load_data(f"csv({str(tmp_path / 'nothing.csv')!r})")

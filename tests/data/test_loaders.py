from pathlib import Path

import pytest

from bigain.data import DATASETS, load_data
from bigain.data.files import Home, listed
from bigain.data.images import walk
from helpers import miniatures

HOME = Home("Toys", "BIGAIN_TOYS", ("here", "there"), "a.bin and b.bin, or c.png")


@pytest.mark.parametrize("spec", ["fashion-sample", " fashion-sample ", "fashion-sample()", "fashion-sample ( )"])
def test_names_alone(spec: str) -> None:
    assert load_data(spec).describe() == "fashion-sample test: 500 images, 10 classes"


def test_parameters_by_place_and_by_name(tmp_path: Path) -> None:
    miniatures.fashion_mnist(tmp_path)
    assert load_data(f"fashion-mnist({str(tmp_path)!r}, 'train')").split == "train"
    assert load_data(f"fashion-mnist(split='train', root={str(tmp_path)!r})").split == "train"


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("imagnet-100", r"unknown dataset 'imagnet-100'. Did you mean 'imagenet-100'\? Available: "),
        ("imagenet_100('x')", r"unknown dataset 'imagenet_100'. Did you mean 'imagenet-100'\? Available: "),
        ("zzz", r"unknown dataset 'zzz'. Available: .*fashion-mnist, fashion-sample"),
        ("coco(roof='x')", r"unknown coco parameter 'roof'. Did you mean 'root'\? Available: root, split, unlabelled"),
        ("folder", r"^folder takes root, prompts='a photo of a \{\}': missing a required argument: 'root'"),
        ("pets('a', 'test', 3)", r"^pets takes root=None, split='test': too many positional"),
        ("pets('a', root='b')", r"pets takes root=None, split='test': multiple values for argument 'root'"),
    ],
)
def test_mistyped_names_and_parameters(spec: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        load_data(spec)


@pytest.mark.parametrize("spec", ["", "folder(my/images)", "imagenet 100", "folder('a'", "a-b-(", "imagenet-100(**{})"])
def test_text_that_is_no_call(spec: str) -> None:
    with pytest.raises(ValueError, match=r"^cannot read the dataset .*; write a name, or a call") as error:
        load_data(spec)
    assert repr(spec) in str(error.value)


def test_names_can_be_listed() -> None:
    assert set(DATASETS) >= {"imagenet-1k", "imagenet-100", "pets", "coco", "cifar-10", "fashion-mnist", "folder"}


def test_root_goes_before_the_variable_and_the_variable_before_the_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("asked", "variable", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "c.png").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BIGAIN_TOYS", raising=False)
    assert HOME.find(None, ["c.png"]) == [Path("here/c.png")]
    monkeypatch.setenv("BIGAIN_TOYS", str(tmp_path / "variable"))
    assert HOME.find(None, ["c.png"]) == [tmp_path / "variable/c.png"]
    assert HOME.find(tmp_path / "asked", ["c.png"]) == [tmp_path / "asked/c.png"]
    assert HOME.find(str(tmp_path / "asked"), ["a.bin", "b.bin"], ["c.png"]) == [tmp_path / "asked/c.png"]


def test_a_folder_that_was_asked_for_is_the_only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BIGAIN_TOYS", raising=False)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/c.png").touch()
    with pytest.raises(FileNotFoundError) as error:
        HOME.find("elsewhere", ["c.png"])
    assert str(error.value) == (
        "no Toys in elsewhere: expected a.bin and b.bin, or c.png; pass the folder as root= or set BIGAIN_TOYS"
    )


def test_an_incomplete_copy_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BIGAIN_TOYS", raising=False)
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.bin").touch()
    with pytest.raises(FileNotFoundError, match=r"^no Toys in here, there \(there lacks b\.bin\): expected a\.bin and"):
        HOME.find(None, ["a.bin", "b.bin"], ["c.png"])


def test_home_folders_can_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys/c.png").touch()
    assert HOME.find("~/toys", ["c.png"]) == [tmp_path / "toys/c.png"]


def test_listed_files_that_are_missing_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    assert listed(tmp_path, ["a.png"], tmp_path / "list") == [tmp_path / "a.png"]
    with pytest.raises(FileNotFoundError, match=r"^2 of the 3 images that .*list lists are missing, first .*b\.png; "):
        listed(tmp_path, ["a.png", "b.png", "no/c.png"], tmp_path / "list")


def test_hidden_files_and_other_endings_are_no_images(tmp_path: Path) -> None:
    for name in ("a.png", "deep/B.JPEG", "._a.png", ".cache/c.png", "notes.txt", "print.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    assert walk(tmp_path).images == [tmp_path / "a.png", tmp_path / "deep/B.JPEG"]


def test_images_are_not_decoded_while_loading(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/1.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"this is no image")
    assert len(load_data(f"folder({str(tmp_path)!r})")) == 2

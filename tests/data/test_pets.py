from pathlib import Path

import pytest

from bigain.data import load_data
from bigain.data.pets import BREEDS
from helpers import miniatures


def test_reads_the_official_layout(tmp_path: Path) -> None:
    data = load_data(miniatures.pets(tmp_path))
    assert data.describe() == "pets test: 12 images, 37 classes"
    assert data.examples[0][0::2] == ("Abyssinian_200", (0,))
    assert data.examples[3][0::2] == ("american_bulldog_201", (1,))
    assert data.prompts.format(data.classes[1]) == "a photo of a american bulldog, a type of pet"
    other = load_data(f"pets({str(tmp_path)!r}, split='trainval')")
    assert not {e.name for e in other.examples} & {e.name for e in data.examples}


def test_breeds_are_in_the_order_of_the_official_numbers() -> None:
    assert len(BREEDS) == 37
    assert list(BREEDS) == sorted(BREEDS, key=str.lower)


@pytest.mark.parametrize(
    "line", ["Abyssinian_1 2 1 1", "Unicorn_1 1 1 1", "Abyssinian_1 1 1", "", "# Image CLASS-ID SPECIES BREED"]
)
def test_lines_that_are_not_official(line: str, tmp_path: Path) -> None:
    spec = miniatures.pets(tmp_path)
    answers = tmp_path / "annotations/test.txt"
    answers.write_text(f"{answers.read_text()}{line}\n")
    with pytest.raises(ValueError, match=r"test\.txt, line 13: expected a line such as 'Abyssinian_201 1 1 1', got "):
        load_data(spec)


def test_missing_images_and_annotations(tmp_path: Path) -> None:
    spec = miniatures.pets(tmp_path)
    (tmp_path / "images/beagle_200.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"^1 of the 12 images that .*test\.txt lists.*beagle_200\.jpg"):
        load_data(spec)
    (tmp_path / "annotations/test.txt").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"lacks annotations/test\.txt\): expected images/\*\.jpg and annotations"
    ):
        load_data(spec)

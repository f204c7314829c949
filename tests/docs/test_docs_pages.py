"""Every block of README.md and docs/*.md is run, written or compared; nothing is left out silently."""

from pathlib import Path

import pytest
import torch

from helpers.doc_pages import PAGES, Page, alike, commands, compare, read_blocks, world
from helpers.stand_ins import FILES, NOT_RUN, STAND_INS, Folders

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("folders"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_page(path: Path, tmp_path: Path, folders: Folders) -> None:
    """All blocks of a page in their order, in an empty folder with the files that the page takes for granted."""
    page = Page(STAND_INS.get(path.name, ()), NOT_RUN, folders)
    with world(tmp_path):
        for make in FILES.get(path.name, ()):
            make()
        for block in read_blocks(path):
            page.run(block)
    torch.compiler.reset()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_of_a_page_is_used(path: Path) -> None:
    blocks = read_blocks(path)
    for number, block in enumerate(blocks):
        if block.title is not None:
            later = "".join(other.text for other in blocks[number + 1 :])
            assert block.title in later or f"from {Path(block.title).stem} import" in later, block.place


def test_every_stand_in_is_needed() -> None:
    texts = {path.name: "".join(block.text for block in read_blocks(path)) for path in PAGES}
    for page, stand_ins in STAND_INS.items():
        for stand_in in stand_ins:
            assert stand_in.old in texts[page], f"{page} does not have {stand_in.old!r} any more; take it off the list"
    lines = [line for path in PAGES for block in read_blocks(path) for line in commands(block.text)]
    assert set(NOT_RUN) <= set(lines)
    assert set(FILES) <= set(texts)


def write(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["```\nx = 1\n```\n", "words\n\n    x = 1\n"])
def test_a_block_without_a_language_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"page.md, line \d: a block of code needs a fence and a language"):
        read_blocks(write(tmp_path, text))


def test_a_block_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    (block,) = read_blocks(write(tmp_path, "```yaml\nx: 1\n```\n"))
    with pytest.raises(ValueError, match="cannot tell what a block of 'yaml' is for"):
        _ = block.kind


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("```sh\nrm -rf build\n```\n", ValueError, "cannot run 'rm -rf build'"),
        ("```sh\nbigain list operator\n```\n", AssertionError, "Did you mean 'operators'"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", AssertionError, "the page shows\n2\nbut what was printed"),
        ("```python\nprint(1)\nprint(2)\n```\n\n```text\n1\n```\n", AssertionError, "the page lacks the line\n2"),
        ("```text\n2\n```\n", ValueError, "needs a block before it"),
        ("\n```python\nraise KeyError(3)\n```\n", KeyError, "3"),
    ],
)
def test_what_fails_on_a_page_fails_its_test(
    text: str, error: type[Exception], words: str, tmp_path: Path, folders: Folders
) -> None:
    page = Page((), NOT_RUN, folders)
    *before, last = read_blocks(write(tmp_path, text))
    with world(tmp_path):
        for block in before:
            page.run(block)
        with pytest.raises(error) as caught:
            page.run(last)
    assert words in str(caught.value)


def test_numbers_may_differ_as_machines_do() -> None:
    assert alike("margin 0.00069 of 125 in │ 3e-04 │", "margin  0.00070 of 126 in │ 4e-04 │")
    assert not alike("margin 0.00069", "margin 0.00075")
    assert not alike("margin 0.5", "error 0.5")
    assert not alike("5 sites", "6 sites")
    compare("a\n…\nd 1.0\n", "a\nb\nc\nd 1.0\n", "here")
    with pytest.raises(AssertionError, match="here: the page shows"):
        compare("…\ne\n", "a\nb\n", "here")


def test_commands_of_a_block() -> None:
    text = "# first\nbigain list data   # all\nbigain run \\\n    x.toml\n\n"
    assert commands(text) == ["bigain list data", "bigain run x.toml"]

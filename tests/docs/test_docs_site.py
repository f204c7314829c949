"""The documentation site: it builds without a warning, its navigation is whole, and what it names exists."""

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import bigain
from helpers.doc_pages import PAGES, ROOT

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
REPOSITORY = re.compile(r"(?:src|tests|docs|benchmarks|examples)/[\w./-]+|[A-Z]+\.md")


def prose(path: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", path.read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as the builder writes beside what it reads."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    words = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    return folder / "build/site"


class Addresses(HTMLParser):
    """What a page loads from elsewhere, and the names of its places."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.names.add(found.get("id") or "")
        if tag in ("script", "img", "iframe"):
            self.loaded.append(found.get("src") or "")
        if tag == "link" and found.get("rel") == "stylesheet":
            self.loaded.append(found.get("href") or "")


def read(path: Path) -> Addresses:
    parser = Addresses()
    parser.feed(path.read_text())
    return parser


def pages(entries: list[dict[str, Any]]) -> list[str]:
    """The pages of a navigation and of all its sections."""
    found = [target for entry in entries for target in entry.values()]
    return [name for target in found for name in ([target] if isinstance(target, str) else pages(target))]


def test_every_page_is_in_the_navigation_and_is_built(site: Path) -> None:
    listed = pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))
    for name in listed:
        place = site / ("index.html" if name == "index.md" else f"{Path(name).stem}/index.html")
        assert place.is_file()


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not [address for address in read(page).loaded if "//" in address], page


def test_the_reference_has_every_public_name(site: Path) -> None:
    names = read(site / "api/index.html").names
    assert {f"bigain.{name}" for name in bigain.__all__} <= names


DIALECT = re.compile(r"\b(talents?|time[ -]steps?|data sets?|hub ids?|backbones?|down sampling)\b", re.IGNORECASE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_the_words_of_diffusers(path: Path) -> None:
    """Timestep, dataset, Hub model ID; code and the names of tests may say what they like."""
    assert not DIALECT.findall(CODE.sub("", prose(path)))


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 140


def section(path: Path, title: str) -> str:
    """The text under a heading of the second level, up to the next one."""
    return path.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0].strip()


def test_there_is_one_recommendation() -> None:
    """README.md and the documentation give the same advice, word for word."""
    advice = section(ROOT / "README.md", "Which operator when")
    assert advice
    assert section(DOCS / "compress.md", "Which operator when").startswith(advice)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Pages of the site link to pages of the site (the builder checks places in them); README links to files."""
    for target in LINK.findall(prose(path)):
        if target.startswith(("https://", "#")):
            continue
        name = target.partition("#")[0]
        assert (path.parent / name).exists(), f"{path.name}: {target}"
        inside = (path.parent / name).resolve().is_relative_to(DOCS)
        assert path.parent == ROOT or inside, f"{path.name}: {target} is outside of the site"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_that_pages_name_exist(path: Path) -> None:
    for code in CODE.findall(prose(path)):
        name = code.partition("::")[0]
        if REPOSITORY.fullmatch(name) and "NAME" not in name:
            assert (ROOT / name).exists(), f"{path.name}: {code}"


def named(path: str) -> Any:
    """`bigain.tokens.plans.Assignment.queries` -> that function."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_names_and_tests_that_pages_name_exist(path: Path) -> None:
    for code in CODE.findall(prose(path)):
        if re.fullmatch(r"bigain(\.\w+)+", code):
            assert named(code) is not None, f"{path.name}: {code}"
        test = TEST.fullmatch(code)
        if test is not None:
            assert f"def {test[2]}(" in (ROOT / test[1]).read_text(), f"{path.name}: {code}"


def test_the_method_names_a_function_and_a_test_in_every_row() -> None:
    whole = (DOCS / "method.md").read_text().partition("## Where this library departs")[0]
    rows = [
        line for line in whole.splitlines() if line.startswith("| ") and not line.startswith(("| paper", "| method"))
    ]
    assert len(rows) > 25
    for row in rows:
        *_, function, test, _ = row.split("|")
        assert re.search(r"`bigain\.[\w.]+`", function), row
        assert TEST.search(test), row

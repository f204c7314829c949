"""The numbers of the pages are those of the records."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pages_are_what_the_records_say() -> None:
    pages = runpy.run_path(str(ROOT / "benchmarks" / "pages"))["render"]()
    for name, text in pages.items():
        assert (ROOT / "docs" / f"{name}.md").read_text() == text, f"run `python benchmarks/pages`: {name}"

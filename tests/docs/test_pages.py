"""The numbers of the pages are those of the records."""

import runpy
from pathlib import Path

PAGES = Path(__file__).parents[2] / "benchmarks" / "pages"


def test_pages_are_what_the_records_say() -> None:
    for page, text in runpy.run_path(str(PAGES))["render"]().items():
        assert page.read_text() == text, f"{page.name} is not what the records say; run `python benchmarks/pages`"

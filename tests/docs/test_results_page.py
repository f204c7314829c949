"""The numbers of the results page are those of the records."""

import runpy

from doc_pages import ROOT


def test_the_page_is_what_the_records_say() -> None:
    page = runpy.run_path(str(ROOT / "benchmarks" / "results_page.py"))
    assert (ROOT / "docs" / "results.md").read_text() == page["render"]()

"""Writes docs/results.md and docs/performance.md from the committed records: `python benchmarks/pages`.

A test compares the pages with what the records say.
"""

from models import models
from performance import performance
from policies import policies
from text import ROOT

HEAD = """# Results

All numbers on this page are written by `python benchmarks/pages` from records in the repository."""


def render() -> dict[str, str]:
    """Name of the page: its text."""
    pages = {"results": [HEAD, models(), policies()], "performance": [performance()]}
    return {name: "\n\n".join(parts) + "\n" for name, parts in pages.items()}


if __name__ == "__main__":
    for name, text in render().items():
        (ROOT / "docs" / f"{name}.md").write_text(text)

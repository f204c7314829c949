"""Writes docs/results.md with its figures, docs/performance.md and the tables of README.md from the records.

`python benchmarks/pages`. A test compares what stands there with what the records say.
"""

import argparse
import re
from pathlib import Path

import compression
import performance
import smaller
from bundled import listed, models
from matching import which_matching
from policies import policies
from text import ROOT

HEAD = """# Results

All numbers on this page are written by `python benchmarks/pages` from records in the repository; each section names the
command that makes its record and its figure."""


def render() -> dict[Path, str]:
    """Each page with its text."""
    pages = {
        "results": [HEAD, compression.in_short(), models(), compression.compression(), policies(), smaller.smaller()],
        "performance": [
            performance.HEAD,
            performance.overhead(),
            performance.steps(),
            performance.where_it_goes(),
            which_matching(),
            performance.compiled(),
            performance.classifying(),
            performance.starting(),
        ],
    }
    found = {ROOT / "docs" / f"{name}.md": "\n\n".join(parts) + "\n" for name, parts in pages.items()}
    readme = ROOT / "README.md"
    return found | {readme: filled(readme.read_text(), {"models": listed(), "results": compression.summary()})}


def filled(text: str, parts: dict[str, str]) -> str:
    """A page with the parts between `<!-- name -->` and `<!-- /name -->` written anew."""
    for name, part in parts.items():
        pattern = re.compile(f"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, part=part: match[1] + part + match[2], text)
        assert count == 1, f"{name} has {count} places"
    return text


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python benchmarks/pages", description=__doc__).parse_args()
    for page, text in render().items():
        page.write_text(text)
    compression.draw()
    smaller.draw()

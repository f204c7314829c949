"""Writes the pages of results and performance, their figures, and the tables in README.md and docs, from the records.

`python benchmarks/pages`. A test compares what stands there with what the records say.
"""

import argparse
import re
from pathlib import Path

import correction
import figures
import joint
import natural
import overview
import performance
import policies
import smaller
import supported
import table1
from bundled import listed
from correction_speed import correction_speed
from matching import which_matching
from text import ROOT

import cluster
import compression


def render() -> dict[Path, str]:
    """Each page with its text."""
    pages = {
        "results": [overview.opening()],
        "results-details": [compression.compression()],
        "results-evaluations": [policies.policies()],
        "results-ablations": [smaller.smaller()],
        "results-joint": [joint.joint()],
        "results-table1": [table1.table1()],
        "results-cifar": [natural.natural()],
        "performance": [
            performance.HEAD,
            performance.overhead(),
            performance.steps(),
            performance.where_it_goes(),
            which_matching(),
            performance.compiled(),
            performance.classifying(),
            performance.many_classes(),
            correction_speed(),
            performance.starting(),
        ],
    }
    written = {ROOT / "docs" / f"{name}.md": "\n\n".join(filter(None, parts)) + "\n" for name, parts in pages.items()}
    parts = {
        ROOT / "README.md": {
            "supported": supported.short(),
            "presets": policies.presets(),
            "results": overview.headline(),
        },
        ROOT / "docs" / "compress.md": {"supported": supported.whole()},
        ROOT / "docs" / "models.md": {"models": listed()},
        ROOT / "docs" / "cluster.md": {"scale": cluster.scale()},
        ROOT / "docs" / "correction.md": {"correction": correction.correction(), "steps": correction.steps()},
    }
    return written | {page: filled(page.read_text(), own) for page, own in parts.items()}


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
    for part in (figures, compression, correction, joint, natural, policies, smaller, table1):
        part.draw()

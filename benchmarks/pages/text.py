"""Markdown from records."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
RECORDS = ROOT / "src" / "bigain" / "records"  # those that come with the package

IMAGES = ROOT / "docs" / "images"

Record = dict[str, Any]


def read(name: str) -> Record:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def share(found: Record, digits: int = 1) -> str:
    return f"{100 * found['value']:.{digits}f} % [{100 * found['low']:.{digits}f}, {100 * found['high']:.{digits}f}]"


def points(value: float, low: float, high: float) -> str:
    """A difference of shares in percentage points."""
    return f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]".replace("-", "−")


def signs(text: str) -> str:
    """A true minus before numbers; names keep their hyphens."""
    return re.sub(r"(?<![\w-])-(?=[\d.])|(?<=\de)-(?=\d)", "−", text)

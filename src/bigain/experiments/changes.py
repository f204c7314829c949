"""What is not as it was when a record was begun, in words."""

import difflib
import json
from pathlib import Path
from typing import Any

WORDS = {"image": "images", "weights": "weights", "source": "code"}
NAMED = 5


def compare(path: Path, kind: str, before: dict[str, str], now: dict[str, str]) -> None:
    """Refuse hashes that changed. Images and files may be added; of the weights no part may come or go."""
    names = before.keys() | now.keys() if kind == "weights" and before else before.keys() & now.keys()
    other = sorted(name for name in names if before.get(name) != now.get(name))
    if other:
        raise ValueError(replaced(path, kind, other, len(names)))


def replaced(path: Path, kind: str, names: list[str], total: int) -> str:
    """Which images, weights or files are not those under the results, and what to do."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (
        f"{path} holds results from other {WORDS[kind]}; {len(names)} of {total} changed since: "
        f"{', '.join(names[:NAMED])}{more}. Put back what was there, or take a new folder"
    )


def as_text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)


def changed(path: Path, key: str, before: str, now: str) -> str:
    """What differs between the experiment under the results and the one asked for now."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "recorded", "asked for", lineterm="", n=1)
    return (
        f"{path} holds results of another experiment; take a new folder, or undo this change of {key}:\n"
        + "\n".join(lines)
    )

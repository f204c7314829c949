"""Errors for what changed since a record was started."""

import difflib
import json
from pathlib import Path
from typing import Any

WORDS = {"image": "images", "weights": "weights", "source": "code", "profile": "timesteps"}
NAMED = 5


def compare(path: Path, kind: str, before: dict[str, str], now: dict[str, str]) -> None:
    """Raise if hashes changed. Images and files may be added; parts of the weights may not come or go."""
    names = before.keys() | now.keys() if kind == "weights" and before else before.keys() & now.keys()
    other = sorted(name for name in names if before.get(name) != now.get(name))
    if other:
        raise ValueError(replaced(path, kind, other, len(names)))


def replaced(path: Path, kind: str, names: list[str], total: int) -> str:
    """The error text for changed images, weights or files."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (
        f"{path} has results from other {WORDS[kind]}; {len(names)} of {total} changed since: "
        f"{', '.join(names[:NAMED])}{more}. Restore them, or use a new folder"
    )


def as_text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)


def changed(path: Path, key: str, before: str, now: str) -> str:
    """The error text for a changed experiment, with a diff."""
    return f"{path} has results of another experiment; use a new folder, or undo this change of {key}:\n" + differences(
        before, now, ("recorded", "requested")
    )


def differences(before: str, now: str, names: tuple[str, str]) -> str:
    """A short diff of two texts."""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), *names, lineterm="", n=1)
    return "\n".join(lines)

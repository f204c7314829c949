"""The models that come with the package."""

import json
from pathlib import Path

from bigain.registry import miss

SHELF = Path(__file__).parent / "models"


def bundled() -> dict[str, Path]:
    """Names and folders of the models in the package."""
    return {folder.name: folder for folder in sorted(SHELF.iterdir()) if (folder / "card.json").is_file()}


def folder_of(name: str) -> Path:
    found = bundled()
    if name not in found:
        raise ValueError(miss("bundled model", name, found))
    return found[name]


def card(name: str) -> dict[str, object]:
    """The card of a bundled model, as its training wrote it."""
    return json.loads((folder_of(name) / "card.json").read_text())


def model_lines() -> dict[str, str]:
    """One line for each bundled model."""
    return {name: str(card(name)["summary"]) for name in bundled()}

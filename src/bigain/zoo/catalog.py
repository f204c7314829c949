"""The bundled models."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from bigain.registry import miss

MODELS = Path(__file__).parent / "models"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
LABELLED, PIPELINE = "bigain.json", "model_index.json"  # what the folder of a model holds


def bundled() -> dict[str, Path]:
    """Names and folders of the models in the package."""
    return {folder.name: folder for folder in sorted(MODELS.iterdir()) if (folder / "card.json").is_file()}


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


def is_features(name: str | Path) -> bool:
    """Whether a bundled model is a feature network."""
    return str(name) in bundled() and not (bundled()[str(name)] / LABELLED).is_file()


def locate(name: str | Path) -> Path | str:
    """The folder of a diffusion model, or its Hub model ID unchanged; nothing heavy is imported."""
    names = {known: folder for known, folder in bundled().items() if not is_features(known)}
    if is_features(name):
        raise ValueError(f"{name} is a feature network, not a diffusion model. Available: {', '.join(names)}")
    folder = names.get(str(name), Path(name))
    if folder.is_dir():
        return folder
    if isinstance(name, Path) or not HUB_ID.fullmatch(name):
        raise ValueError(f"{miss('bundled model', str(name), names)}; or pass a folder or a Hub model ID (owner/name)")
    return name


class Kind(NamedTuple):
    """What a model's files say without loading it: whether it is text-conditioned, and its own classes, if any."""

    by_text: bool
    classes: tuple[str, ...] | None


def kind_of(place: Path | str) -> Kind | None:
    """None if the files do not say: on the Hub, or damaged, which raises when the model is loaded."""
    if isinstance(place, str):
        return None
    try:
        if (place / LABELLED).is_file():
            return Kind(False, tuple(read_object(place / LABELLED)["classes"]))
        return Kind(read_object(place / PIPELINE)["_class_name"] != "DiTPipeline", None)
    except (OSError, KeyError, TypeError, ValueError):
        return None


def read_object(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))

"""What a row of an experiment attaches: an operator, a setting's file or a preset."""

from pathlib import Path
from typing import Any, NamedTuple

from bigain.compression.document import Setting
from bigain.compression.presets import is_preset, is_setting, preset
from bigain.compression.setting import Compression
from bigain.models.architectures import build_meta
from bigain.registry import NONE
from bigain.zoo.catalog import locate


class Place(NamedTuple):
    """The folder of the experiment file, and the name of its model."""

    folder: Path
    model: str


class Made(NamedTuple):
    """Operators, and the setting they come from, which must fit the model."""

    parts: tuple[Compression, ...]
    document: Setting | None = None


def attachments(part: dict[str, Any], place: Place) -> Made:
    """The operators of one table of a row, which has an operator and options."""
    operator = part["operator"]
    if operator == NONE:
        return Made(())
    if not is_preset(operator) and not is_setting(operator):
        return Made((Compression(**part),))
    others = [key for key in part if key != "operator"]
    if others:
        raise ValueError(f"{others[0]} is part of the setting {operator!r}; leave it out of the row")
    if is_preset(operator):
        return Made(preset(operator, build_meta(str(model_folder(place.model)))).parts)
    file = place.folder / operator
    found = Setting.from_pretrained(file if file.exists() else operator)
    return Made(found.parts, found)


def model_folder(name: str) -> Path:
    """The folder with a model's configuration, which decides what a preset is."""
    folder = locate(name)
    if isinstance(folder, str):
        raise ValueError(f"presets need the configuration of the model; load {name} and name its folder instead")
    return folder / "model" if (folder / "model" / "config.json").is_file() else folder

"""Presets: operators by one word, for each family of models, chosen from the records of this project.

In classification they correct what the classes of a trial share. In generation each image has its own plans.
"""

import re
from pathlib import Path
from typing import Any

from torch import nn

from bigain.compression.document import FILE, Setting
from bigain.compression.setting import Compression
from bigain.models.family import family_of
from bigain.operators.base import Operator

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
LONGEST = 1024  # characters of a folder's path
WORDS = ("quality", "balanced", "fast")
# docs/compress.md has what each was measured to save and to lose, in the records named here
PRESETS: dict[str, dict[str, str]] = {
    "unet": {
        "quality": "gated_merge(ratio=0.3)",
        "balanced": "kv_downsample(factor=2)",
        "fast": "gated_merge(ratio=0.7)",
    },
    "transformer": {"quality": "tome(ratio=0.3)", "balanced": "tome(ratio=0.5)", "fast": "tome(ratio=0.7)"},
    "joint": {
        "quality": "gated_merge(ratio=0.3)",
        "balanced": "block_merge(ratio=0.5)",
        "fast": "block_merge(ratio=0.7)",
    },
}
RECORDS = {"unet": "main-unet", "transformer": "main-dit", "joint": "main-mmdit"}


def is_preset(operator: object) -> bool:
    return isinstance(operator, str) and operator.strip() in WORDS


def kind_of(model: nn.Module) -> str:
    """The kind of model that a preset depends on."""
    family = family_of(model)
    if family.spatial:
        return "unet"
    return "joint" if any(site.stream is not None for site in family.sites(model)) else "transformer"


def preset(word: str, model: nn.Module) -> Setting:
    """The setting of a preset for a model."""
    compression = Compression(PRESETS[kind_of(model)][word], groups="classes", correct=True)
    return Setting((compression,), name=word)


def is_setting(operator: object) -> bool:
    """Whether an argument names a setting: a file, a folder with one, or a repository of the Hub."""
    if isinstance(operator, Path):
        return True
    if not isinstance(operator, str) or "(" in operator:
        return False
    if operator.endswith(".json") or HUB_ID.fullmatch(operator):
        return True
    return len(operator) <= LONGEST and (Path(operator) / FILE).is_file()


def parts_of(operator: Any, model: nn.Module) -> tuple[Compression, ...]:
    """The operators of a preset, a setting or a single compression for a model."""
    found = resolve(operator, model)
    if isinstance(found, Setting):
        return found.parts
    return (found if isinstance(found, Compression) else Compression(found),)


def resolve(operator: Any, model: nn.Module) -> "Operator | Compression | Setting | str":
    """A preset or the name of a setting as the setting, checked against the model; everything else as it is."""
    if is_preset(operator):
        return preset(operator.strip(), model)
    found = Setting.from_pretrained(operator) if is_setting(operator) else operator
    if isinstance(found, Setting):
        found.check(model)
    checked: Operator | Compression | Setting | str = found
    return checked

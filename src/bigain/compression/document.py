"""A setting: several operators for one model, with what they were measured to save and to keep, as a JSON file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import huggingface_hub
from torch import nn

from bigain.compression.setting import Compression
from bigain.models.costs import site_width
from bigain.models.family import family_of
from bigain.operators.base import spec

FORMAT = 1  # of the JSON file
FILE = "setting.json"  # in a folder or a repository of the Hub
NO_SETTING = "write one with `bigain tune`, or with setting.save(path) in Python"


@dataclass(frozen=True)
class Setting:
    """Operators for one model, each with its sites and timesteps, as `bigain.tune` finds and measures them.

    `model` says for which shape of model it is, see `model_shape`; an empty one fits all. `policy` is the preset of the
    classifier that it was measured with. `measured` says on what, what is saved and what is kept.
    """

    parts: tuple[Compression, ...]
    model: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    policy: str | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or not all(isinstance(part, Compression) for part in self.parts):
            raise ValueError(f"a setting needs one Compression or more, got {self.parts!r}")

    def check(self, model: nn.Module) -> None:
        """Raise if it was made for a model of another family or shape."""
        differences = shape_differences(self.model, model_shape(model)) if self.model else []
        if differences:
            raise ValueError(
                f"{self.name or 'this setting'} is for another model: {'; '.join(differences)}. Tune this model with "
                "`bigain tune`, or take a preset: quality, balanced or fast"
            )

    def as_dict(self) -> dict[str, Any]:
        """The content of the JSON file."""
        parts = [written(part) for part in self.parts]
        policy = {"policy": self.policy} if self.policy else {}
        return {
            "format": FORMAT,
            "name": self.name,
            "model": dict(self.model),
            "parts": parts,
            **policy,
            "measured": dict(self.measured),
        }

    @classmethod
    def from_dict(cls, found: Any) -> "Setting":
        """The content of a JSON file."""
        if not isinstance(found, dict) or not isinstance(found.get("parts"), list):
            raise ValueError("expected an object with a list of parts")
        if found.get("format") != FORMAT:
            raise ValueError(f"its format must be {FORMAT}, got {found.get('format')!r}; a later bigain may read it")
        known = ("format", "name", "model", "parts", "policy", "measured")
        unknown = [key for key in found if key not in known]
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}. Available: {', '.join(known)}")
        for key, kind in (("name", str), ("model", dict), ("measured", dict)):
            if not isinstance(found.get(key, kind()), kind):
                raise ValueError(f"{key} must be {kind.__name__}, got {found[key]!r}")
        parts = tuple(read_part(part) for part in found["parts"])
        rest = {key: value for key, value in found.items() if key not in ("format", "parts")}
        return cls(parts, **rest)

    def save(self, path: str | Path) -> None:
        """Write the setting as JSON."""
        Path(path).write_text(json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Setting":
        """Read a setting that `save` wrote."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8-sig")))
        except FileNotFoundError:
            raise FileNotFoundError(f"no setting {path}; {NO_SETTING}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is not a setting: {error}") from error

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Write the setting into a folder, as `setting.json`."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.save(folder / FILE)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | Path, *, revision: str | None = None, token: str | None = None
    ) -> "Setting":
        """Load a setting from its file, a folder, or a repository of the Hub (owner/name)."""
        name = pretrained_model_name_or_path
        place = Path(name)
        if place.is_dir():
            return cls.load(place / FILE)
        if place.is_file() or place.suffix == ".json" or isinstance(name, Path):
            return cls.load(place)
        try:
            return cls.load(huggingface_hub.hf_hub_download(name, FILE, revision=revision, token=token))
        except (OSError, huggingface_hub.errors.HFValidationError) as error:
            reason = " ".join(str(error).split())
            raise FileNotFoundError(
                f"no folder {name}, and cannot download {FILE} from the Hugging Face Hub ({reason}); connect to the "
                "internet, log in with `hf auth login` if the repository is private, or pass a folder"
            ) from None

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Upload setting",
    ) -> str:
        """Upload the setting and a model card to a repository of the Hub, which is made if needed; -> its address."""
        hub = huggingface_hub.HfApi(token=token)
        repo = hub.create_repo(repo_id, private=private, exist_ok=True)
        files = {FILE: json.dumps(self.as_dict(), indent=1) + "\n", "README.md": self.card(repo.repo_id)}
        operations = [
            huggingface_hub.CommitOperationAdd(path_in_repo=path, path_or_fileobj=text.encode())
            for path, text in files.items()
        ]
        hub.create_commit(repo.repo_id, operations, commit_message=commit_message)
        return str(repo)

    def card(self, repo_id: str) -> str:
        """The model card of its repository."""
        return (
            "---\nlibrary_name: bigain\ntags:\n- token-compression\n---\n\n# A bigain setting\n\n"
            f"```\n{self}\n```\n\n```python\nimport bigain\n\nbigain.compress(pipe, {repo_id!r})\n```\n"
        )

    def __str__(self) -> str:
        head = f"{self.name or 'setting'} for {self.model.get('class', 'any model')}"
        return "\n".join([head, *(f"  {part}" for part in self.parts), *summary(self.measured)])


def written(part: Compression) -> dict[str, Any]:
    """A part with all parameters of its operator: the file means the same where a default has changed."""
    found = part.as_dict() | {"operator": spec(part.operator, defaults=True)}
    return {key: value for key, value in found.items() if value is not None}


def read_part(found: Any) -> Compression:
    if not isinstance(found, dict) or not isinstance(found.get("operator"), str):
        raise ValueError(f"each part must be an object with an operator, got {found!r}")
    return Compression(**found)


def summary(measured: Mapping[str, Any]) -> list[str]:
    """What was measured, a line for each number."""
    lines = []
    for group, found in measured.items():
        if isinstance(found, Mapping):
            lines += [f"  {group}: {key.replace('_', ' ')} {shown(value)}" for key, value in found.items()]
    return lines


def shown(value: Any) -> str:
    if isinstance(value, Mapping) and {"value", "low", "high"} <= value.keys():
        low, high = (
            (f"{bound:.4g}" for bound in (value["low"], value["high"])) if value["low"] is not None else ("", "")
        )
        return f"{value['value']:.4g}" + (f" [{low}, {high}]" if low else "")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def model_shape(model: nn.Module) -> dict[str, Any]:
    """What a setting depends on: the class of the model, and the blocks, width and tokens of each of its stages."""
    stages: dict[str, dict[str, int]] = {}
    blocks: dict[str, set[str]] = {}
    for site in family_of(model).sites(model):
        blocks.setdefault(site.stage, set()).add(site.block)
        width = site_width(site)
        stages[site.stage] = {"blocks": len(blocks[site.stage]), "width": width, "tokens": site.tokens}
    return {"class": type(model).__name__, "stages": stages}


def shape_differences(made: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """How two shapes differ, in words."""
    if made.get("class") != here["class"]:
        return [f"it was made for {made.get('class')}, and this is {here['class']}"]
    theirs, ours = made.get("stages") or {}, here["stages"]
    found = []
    for stage in dict.fromkeys([*theirs, *ours]):
        a, b = theirs.get(stage), ours.get(stage)
        if a is None or b is None:
            found.append(f"{'its' if b is None else 'this'} model has a stage {stage}, the other has not")
        else:
            found += [f"{key} of {stage} {a.get(key)} there, {b[key]} here" for key in b if a.get(key) != b[key]]
    return found

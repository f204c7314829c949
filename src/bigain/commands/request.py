"""Requests from the command line, checked before anything heavy is imported or loaded."""

import codecs
import hashlib
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigain.classify.template import check_template
from bigain.registry import NONE
from bigain.zoo.catalog import Kind, bundled, kind_of, locate

if TYPE_CHECKING:
    from bigain.compression.setting import Compression
    from bigain.denoisers.base import Denoiser

GROUPS: dict[str | None, str | None] = {"input": "input", NONE: None}
POLICY = "balanced"  # of `bigain classify` (docs/results-evaluations.md)
PROFILE = "profile.json"  # beside the weights of bundled models
CORRECT = True  # of `bigain classify`: nearly all decisions stay as they were (docs/correction.md)
OTHER_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class CompressionOptions:
    """The compression options of a command, as strings; torch is imported only if one is given."""

    operator: str | None = None
    where: str | None = None
    reuse: Any = None
    groups: str | None = None
    correct: bool | None = None

    def check(self) -> None:
        """Raise for invalid options; no model is needed."""
        if self.groups not in (None, *GROUPS):
            raise ValueError(f"--groups must be input (rows with the same noisy input) or none, got {self.groups}")
        options = {"where": self.where, "reuse": self.reuse, "groups": self.groups, "correct": self.correct}
        given = [name for name, value in options.items() if value is not None]
        if given and self.name is None:
            raise ValueError(f"--{given[0]} needs --operator")
        if given or self.operator is not None:
            self.compression("input")

    @property
    def name(self) -> str | None:
        """The operator, or None for no compression."""
        return None if self.operator is None or self.operator.strip() == NONE else self.operator

    def compression(self, groups: str | None = None, correct: bool = False) -> "Compression | None":
        """The requested compression, or None; `groups` and `correct` are the defaults of the options."""
        if self.name is None:
            return None
        from bigain.compression.setting import Compression

        shared: Any = groups if self.groups is None else GROUPS[self.groups]
        wanted = (correct and shared is not None) if self.correct is None else self.correct
        return Compression(self.name, self.where, self.reuse, shared, wanted)


@dataclass(frozen=True)
class ClassifyRequest:
    """The options of `bigain classify`."""

    model: str = "fashion-unet"
    classes: str | None = None
    prompts: str = "{}"
    compression: CompressionOptions = CompressionOptions()
    policy: str = POLICY
    timesteps: str | None = None
    seed: int = 0
    device: str = "cpu"
    final_operator: str | None = None
    image_size: int | None = None

    def check(self) -> None:
        """Raise for words that cannot be meant."""
        kind = kind_of(locate(self.model))
        check_template(self.prompts)
        own_classes(kind, given_names(self.classes))
        self.compression.check()
        self.final.check()
        from bigain.classify.policies import Cascade
        from bigain.classify.presets import FITTED, check_policy
        from bigain.classify.trials import check_timesteps

        cascade = isinstance(check_policy(self.policy), Cascade)
        if cascade != (self.final_operator is not None):
            raise ValueError("--final-operator, none or an operator for the last rounds, goes with --policy cascade(…)")
        timesteps = parse_timesteps(self.timesteps)
        if timesteps not in (None, FITTED):
            check_timesteps(timesteps, sys.maxsize)

    @property
    def final(self) -> CompressionOptions:
        """The compression of the last rounds of a cascade."""
        return replace(self.compression, operator=self.final_operator) if self.final_operator else CompressionOptions()

    def settings(self, **more: Any) -> dict[str, Any]:
        """Everything that decides the results, in a canonical form."""
        from bigain.classify.presets import check_policy, policy_identity

        place, compression = locate(self.model), self.compression.compression("input", CORRECT)
        attached = {"operator": None} if compression is None else compression.as_dict()
        return {
            "bigain": version("bigain"),
            "model": self.model if isinstance(place, str) or self.model in bundled() else str(place.resolve()),
            "weights": weights_of(self.model),
            "classes": given_names(self.classes),
            "prompts": self.prompts,
            **attached,
            "policy": repr(check_policy(self.policy) or policy_identity(self.policy)),
            "final_operator": self.final_operator,
            "timesteps": file_hash(self.timesteps or "") or parse_timesteps(self.timesteps),
            "profile": None if isinstance(place, str) else file_hash(place / PROFILE),
            "seed": self.seed,
            "half": not self.device.startswith("cpu"),
            **({"image_size": self.image_size} if self.image_size else {}),  # files from before it existed lack it
            **more,
        }


@dataclass(frozen=True)
class GenerateRequest:
    """The options of `bigain generate`."""

    model: str = "fashion-unet"
    prompts: tuple[str, ...] = ()
    classes: str | None = None
    prompts_file: str | None = None
    count: int = 10
    compression: CompressionOptions = CompressionOptions()
    device: str = "cpu"
    image_size: int | None = None
    cache: str | None = None

    def check(self) -> None:
        """Raise for words that cannot be meant."""
        if self.cache is not None:
            from bigain.caching.methods import parse_cache

            parse_cache(self.cache)
        if self.count < 1:
            raise ValueError(f"--count must be at least 1, got {self.count}")
        kind, names = kind_of(locate(self.model)), self.names()
        if names is None and kind is not None and kind.by_text and kind.classes is None:
            raise ValueError("this model needs text; use --prompt, --prompts-file or --classes")
        found = own_classes(kind, names)
        if not found and (kind is not None or names is not None):  # otherwise known when the model is loaded
            raise ValueError("nothing to generate: the list of classes or prompts is empty")
        self.compression.check()

    def names(self) -> list[str] | None:
        """Prompts or classes from the options; None for the model's own classes."""
        if sum(bool(option) for option in (self.prompts, self.classes, self.prompts_file)) > 1:
            raise ValueError("use only one of --prompt, --classes and --prompts-file")
        if self.prompts_file:
            return read_names(Path(self.prompts_file))
        return list(self.prompts) or given_names(self.classes)


def own_classes(kind: Kind | None, given: list[str] | None) -> list[str]:
    """The given names, or the model's own; none if they are unknown before the model is loaded."""
    if given is not None:
        return given
    if kind is not None and kind.classes is None:
        raise ValueError("this model has no classes of its own; use --classes")
    return [] if kind is None or kind.classes is None else list(kind.classes)


def model_names(denoiser: "Denoiser", given: list[str] | None) -> list[str | int]:
    """The classes or prompts for a loaded model; a class-conditional model takes digits as label numbers."""
    names = own_classes(Kind(denoiser.by_text, getattr(denoiser, "classes", None)), given)
    return [int(name) if name.isdecimal() and not denoiser.by_text else name for name in names]


def attached(
    denoiser: "Denoiser", options: CompressionOptions, groups: str | None = None, correct: bool = False
) -> AbstractContextManager[Any]:
    """The model with the requested operator inside the `with` block; `groups` and `correct` are defaults."""
    options.check()
    compression = options.compression(groups, correct)
    if compression is None:
        return nullcontext()
    from bigain.compression import compress

    return compress(denoiser.network, compression)


def cached(denoiser: "Denoiser", text: str | None) -> AbstractContextManager[Any]:
    """The model with the requested cache inside the `with` block."""
    if text is None:
        return nullcontext()
    from bigain.caching import cache

    return cache(denoiser, text)


def parse_timesteps(text: str | None) -> str | tuple[int, ...] | None:
    """`125,525` -> (125, 525); words are unchanged."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else text


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # many names are too long for one of a file
        return False


def given_names(text: str | None) -> list[str] | None:
    """Names from a comma-separated string or from a file with one per line; None for None."""
    if text is None:
        return None
    if is_file(text):
        return read_names(Path(text))
    if Path(text).suffix in (".txt", ".csv"):
        raise FileNotFoundError(f"no file {text}; expected class names, one per line")
    return [part.strip() for part in text.split(",") if part.strip()]


def read_names(path: Path) -> list[str]:
    """One name per line, in UTF-8 with or without BOM, with any line endings."""
    if not is_file(str(path)):
        raise FileNotFoundError(f"no file {path}")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        kind = "UTF-16" if data.startswith(OTHER_BOMS) else f"byte 0x{data[error.start]:02x}"
        raise ValueError(f"{path}, line {line}: not UTF-8 ({kind}); save the file as UTF-8") from None
    return [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]


def file_hash(path: str | Path) -> str | None:
    """A hash of a small file; None if there is none."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if is_file(str(path)) else None


def weights_of(model: str) -> str | None:
    """A hash of a model's weights; None for one on the Hub."""
    place = locate(model)
    return None if isinstance(place, str) else weights_hash(place)


def weights_hash(folder: Path) -> str:
    """A hash of all weights in a folder, byte by byte."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()

"""What the command line asks for, checked before anything heavy is imported or loaded."""

import codecs
import hashlib
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bigain.classify.template import check_template
from bigain.registry import NONE
from bigain.zoo.shelf import Kind, bundled, kind_of, locate

GROUPS: dict[str | None, str | None] = {"input": "input", NONE: None}
OTHER_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Request:
    """What to classify with, as the command line says it."""

    model: str = "fashion-unet"
    classes: str | None = None
    prompts: str = "{}"
    operator: str | None = None
    reuse: Any = None
    groups: Any = None
    policy: str = "stages"
    trials: str = "even"
    seed: int = 0
    device: str = "cpu"
    where: str | None = None

    def check(self) -> None:
        """Raise for words that cannot be meant."""
        kind = kind_of(locate(self.model))
        check_template(self.prompts)
        own_classes(kind, given_names(self.classes))
        check_attached(self)
        from bigain.classify.policies import parse_policy
        from bigain.classify.trials import check_steps

        parse_policy(self.policy)
        steps = step_numbers(self.trials)
        check_steps("even" if steps == "informative" else steps, sys.maxsize)

    def settings(self, **more: Any) -> dict[str, Any]:
        """All that decides the results, in one way of writing each."""
        from bigain.classify.policies import parse_policy
        from bigain.operators import parse, spec

        place, operator = locate(self.model), attached_operator(self.operator)
        return {
            "bigain": version("bigain"),
            "model": self.model if isinstance(place, str) or self.model in bundled() else str(place.resolve()),
            "weights": None if isinstance(place, str) else weights_hash(place),
            "classes": given_names(self.classes),
            "prompts": self.prompts,
            "operator": None if operator is None else spec(parse(operator)),
            "where": self.where,
            "reuse": self.reuse,
            "groups": self.groups or "input",
            "policy": repr(parse_policy(self.policy)),
            "trials": step_numbers(self.trials),
            "seed": self.seed,
            "half": not self.device.startswith("cpu"),
            **more,
        }


@dataclass(frozen=True)
class Wish:
    """What to generate, as the command line says it."""

    model: str = "fashion-unet"
    operator: str | None = None
    reuse: Any = None
    prompts: tuple[str, ...] = ()
    classes: str | None = None
    prompts_file: str | None = None
    count: int = 10
    device: str = "cpu"
    where: str | None = None
    groups: Any = None

    def check(self) -> None:
        """Raise for words that cannot be meant."""
        if self.count < 1:
            raise ValueError(f"count is a number of images from 1; got {self.count}")
        kind = kind_of(locate(self.model))
        self.subjects(kind)
        check_attached(self)

    def subjects(self, kind: Kind | None) -> list[str]:
        """Prompts or classes, from whichever option names them; otherwise the model's own classes."""
        given = [self.prompts, self.classes, self.prompts_file]
        if sum(bool(option) for option in given) > 1:
            raise ValueError("give --prompt, --classes or --prompts-file, not several of them")
        names = list(self.prompts) or given_names(self.classes)
        if self.prompts_file:
            names = read_names(Path(self.prompts_file))
        if names is None and kind is not None and kind.by_text and kind.classes is None:
            raise ValueError("this model follows text; say what to generate with --prompt, --prompts-file or --classes")
        found = own_classes(kind, names)
        if not found and (kind is not None or names is not None):  # otherwise known when the model is loaded
            raise ValueError("nothing to generate: the list of classes or prompts is empty")
        return found


def own_classes(kind: Kind | None, given: list[str] | None) -> list[str]:
    """The given names, or the model's own; of a model that tells nothing before it is loaded none."""
    if given is not None:
        return given
    if kind is not None and kind.classes is None:
        raise ValueError("this model has no classes of its own; name them with --classes")
    return [] if kind is None or kind.classes is None else list(kind.classes)


def attached_operator(text: str | None) -> str | None:
    """The operator to attach; that of no name and "none" are none."""
    return None if text is None or text.strip() == NONE else text


def check_attached(asked: Request | Wish) -> None:
    """An operator, and how it is attached, in words that are known; `where` is only read here."""
    options = {"where": asked.where, "reuse": asked.reuse, "groups": asked.groups}
    if asked.groups not in (None, *GROUPS):
        raise ValueError(f"--groups is input, for rows with the same noisy input, or none; got {asked.groups}")
    given = [name for name, value in options.items() if value is not None]
    if given and attached_operator(asked.operator) is None:
        raise ValueError(f"--{given[0]} says how an operator is attached; name one with --operator")
    check_operator(asked.operator, asked.where, asked.reuse)


def check_operator(operator: str | None, where: str | None, reuse: Any) -> None:
    """These words of any command; no model is needed."""
    if (operator, where, reuse) == (None, None, None):
        return  # without waiting for torch
    from bigain.compression import as_operator, as_where, check_options

    check_options(reuse, None)
    as_where(where)
    text = attached_operator(operator)
    if text is not None:
        as_operator(text)


def step_numbers(text: str) -> str | tuple[int, ...]:
    """`125,525` -> (125, 525); words stay."""
    parts = [part.strip() for part in text.split(",")]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else text


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # many names are too long for one of a file
        return False


def given_names(text: str | None) -> list[str] | None:
    """Names from a comma-separated text or from a file with one a line; None where there is no text."""
    if text is None:
        return None
    if is_file(text):
        return read_names(Path(text))
    if Path(text).suffix in (".txt", ".csv"):
        raise FileNotFoundError(f"no file {text} with names of classes, one a line")
    return [part.strip() for part in text.split(",") if part.strip()]


def read_names(path: Path) -> list[str]:
    """One name a line, in UTF-8 with or without a mark in front, whatever the line ends are."""
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


def weights_hash(folder: Path) -> str:
    """A hash of all weights in a folder, byte by byte."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()

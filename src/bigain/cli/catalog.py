"""Names with one line each, by kind, for `bigain list` and for shell completion."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Parameter(NamedTuple):
    """A parameter of an operator, a policy or a dataset."""

    name: str
    required: bool
    default: Any


def operators() -> dict[str, str]:
    from bigain.operators import OPERATORS

    return {name: first_sentence(cls) for name, cls in OPERATORS.items()}


def caches() -> dict[str, str]:
    from bigain.caching import CACHES

    return {name: first_sentence(cls) for name, cls in CACHES.items()}


def scorers() -> dict[str, str]:
    from bigain.tokens.scores import SCORERS

    return {name: first_sentence(function) for name, function in SCORERS.items()}


def policies() -> dict[str, str]:
    from bigain.classify.policies import PAPER
    from bigain.classify.presets import PRESETS
    from bigain.classify.state import POLICIES

    own = {name: f"Preset: {preset.text}" for name, preset in PRESETS.items()}
    own |= {name: first_sentence(cls) for name, cls in POLICIES.items()}
    return own | {name: f"The paper's setting for this dataset: {policy}" for name, policy in PAPER.items()}


def models() -> dict[str, str]:
    from bigain.zoo.catalog import model_lines

    return model_lines()


def data() -> dict[str, str]:
    from bigain.data import DATASETS

    return {name: first_sentence(function) for name, function in DATASETS.items()}


def architectures() -> dict[str, str]:
    from bigain.models.named import ARCHITECTURES

    return {name: known.model for name, known in ARCHITECTURES.items()}


def parameters(what: str) -> dict[str, list[Parameter]]:
    """Parameters by name, for kinds that are written as calls."""
    from bigain.caching import CACHES
    from bigain.classify.state import POLICIES
    from bigain.data import DATASETS
    from bigain.operators import OPERATORS

    found: dict[str, Mapping[str, Callable[..., Any]]] = {
        "operators": OPERATORS,
        "caches": CACHES,
        "policies": POLICIES,
        "data": DATASETS,
    }
    return {name: parameters_of(make) for name, make in found.get(what, {}).items()}


def parameters_of(make: Callable[..., Any]) -> list[Parameter]:
    """The parameters in their order."""
    found = inspect.signature(make).parameters.values()
    return [Parameter(p.name, p.default is p.empty, None if p.default is p.empty else p.default) for p in found]


def as_written(parameter: Parameter) -> str:
    return parameter.name if parameter.required else f"{parameter.name}={parameter.default!r}"


CATALOG: dict[str, Callable[[], dict[str, str]]] = {
    "operators": operators,
    "caches": caches,
    "scorers": scorers,
    "policies": policies,
    "models": models,
    "data": data,
    "architectures": architectures,
}


def first_sentence(thing: Any) -> str:
    """The first sentence of a docstring, on one line."""
    text = " ".join((thing.__doc__ or "").split())
    return re.split(r"\. (?=[A-Z`])", text)[0].rstrip(".")  # not at "eq. (6)"

"""Files outside the package that decide an experiment's results: users' own operators and the like."""

import ast
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

import bigain
from bigain.classify.state import POLICIES
from bigain.data import DATASETS
from bigain.experiments.experiment import Experiment
from bigain.experiments.fingerprints import digest
from bigain.plugins import executed
from bigain.registry import Registry, parse_call
from bigain.tokens.scores import SCORERS

OURS = Path(bigain.__file__).parent
INSTALLED = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def source_hashes(experiment: Experiment) -> dict[str, str]:
    """Hashes of the files, by names without folders: records must not depend on their location."""
    found: dict[str, str] = {}
    waiting = [module for thing in used(experiment) for module in homes(thing)]
    while waiting:
        module = waiting.pop()
        data, name = source(module), title(module)
        if data is None or name in found:
            continue
        found[name] = digest([data])
        waiting += [other for other in imported(module, data) if not installed(other)]
    return dict(sorted(found.items()))


def used(experiment: Experiment) -> Iterator[Any]:
    """All registered things of an experiment: operators, their scorers, the policy and the data."""
    for setting in experiment.settings:
        for attach in setting.attach:
            operator = attach.operator
            yield type(operator)
            scorer = str(getattr(operator, "scorer", ""))
            if scorer in SCORERS:
                yield SCORERS[scorer]
    policies = {experiment.policy, *(setting.policy for setting in experiment.settings if setting.policy)}
    names: list[tuple[Registry[Any], str]] = [(POLICIES, parse_call(text, "policy")[0]) for text in sorted(policies)]
    names += [(DATASETS, spec.partition("(")[0].strip()) for spec in datasets(experiment)]
    yield from (registry[name] for registry, name in names if name in registry)


def datasets(experiment: Experiment) -> Iterator[str]:
    """The datasets of an experiment, as they are written."""
    calibration = experiment.calibration and experiment.calibration.data
    yield from (spec for spec in (experiment.data, experiment.without, calibration) if spec)


def homes(thing: Any) -> Iterator[ModuleType]:
    """The modules that define an object: its own and, for a class, those of its bases."""
    while isinstance(thing, partial):
        thing = thing.func
    if not hasattr(thing, "__qualname__"):
        thing = type(thing)
    for number, kind in enumerate(inspect.getmro(thing) if inspect.isclass(thing) else [inspect.unwrap(thing)]):
        module = sys.modules.get(getattr(kind, "__module__", ""))
        if module is not None and not within(module, [OURS]) and (number == 0 or not installed(module)):
            yield module


def source(module: ModuleType) -> bytes | None:
    """The content of a module's file when we ran it, otherwise as it is now; None if it has no file."""
    place = getattr(module, "__file__", None)
    if place is None:
        return None
    known = executed(Path(place))
    if known is not None:
        return known
    return Path(place).read_bytes() if Path(place).is_file() else None


def title(module: ModuleType) -> str:
    """`my_operator.py`, `tools/blur.py`: the module's name as a path; a script has its own name."""
    place = Path(str(module.__file__))
    return place.name if module.__name__ == "__main__" else f"{module.__name__.replace('.', '/')}{place.suffix}"


def imported(module: ModuleType, data: bytes) -> Iterator[ModuleType]:
    """Loaded modules that a file imports."""
    if not str(module.__file__).endswith(".py"):
        return
    for node in ast.walk(ast.parse(data)):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), module.__package__)
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        yield from (sys.modules[name] for name in names if name in sys.modules)


def installed(module: ModuleType) -> bool:
    """Whether a module comes with Python or with an installed package, which have versions."""
    return getattr(module, "__file__", None) is None or within(module, [OURS, *INSTALLED])


def within(module: ModuleType, folders: Iterable[Path]) -> bool:
    place = getattr(module, "__file__", None)
    return place is not None and any(Path(place).resolve().is_relative_to(folder.resolve()) for folder in folders)

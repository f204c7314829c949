"""Users' own Python files, run so that the operators, scorers, policies and data sets they register have names."""

import importlib.util
import linecache
import sys
import traceback
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType


def load_file(path: str | Path) -> ModuleType:
    """Run a Python file as a module named after it, which files loaded later can import; once, however often asked."""
    place = Path(path).resolve()
    if not place.is_file():
        raise FileNotFoundError(f"no file {path} to load")
    if place.suffix != ".py":
        raise ValueError(f"a file to load is Python, and its name ends in .py; got {path}")
    name = place.stem
    known = sys.modules.get(name)
    if known is not None and origin(known.__spec__) == place:
        return known
    if known is not None or (name.isidentifier() and origin(importlib.util.find_spec(name)) not in (None, place)):
        raise ValueError(f"{path} would hide the module {name!r}, which Python has already; rename the file")
    return run(name, place)


def origin(spec: ModuleSpec | None) -> Path | None:
    """The file that a module comes from; None for a mere folder."""
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve()


def run(name: str, path: Path) -> ModuleType:
    loader = SourceFileLoader(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True  # gives the module its __file__
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    try:
        loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(failure(path, error)) from error
    return module


def failure(path: Path, error: Exception) -> str:
    """What a file raised, and at which of its lines."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines, what = [error.lineno], f"{type(error).__name__}: {error.msg}"
    if not lines or lines[-1] is None:
        return f"{path}: {what}"
    return f"{path}, line {lines[-1]}: {what}\n    {linecache.getline(str(path), lines[-1]).strip()}"

"""Users' own Python files, run so that the operators, scorers, policies and datasets they register have names."""

import importlib.util
import linecache
import sys
import traceback
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

RUN: dict[Path, bytes] = {}  # what the files held when they were run


def load_file(path: str | Path) -> ModuleType:
    """Run a Python file as a module named after it, which files loaded later can import; once, however often asked."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path} to load")
    place = Path(path).resolve()
    if place.suffix != ".py":
        raise ValueError(f"a file to load must be Python, with a name that ends in .py, got {path}")
    name = place.stem
    known = sys.modules.get(name)
    if known is not None and origin(known.__spec__) == place:
        if RUN.get(place) not in (None, place.read_bytes()):
            raise ValueError(
                f"{path} has changed since this process loaded it; start a new process to use what it says now"
            )
        return known
    if known is not None or (name.isidentifier() and origin(importlib.util.find_spec(name)) not in (None, place)):
        raise ValueError(f"{path} would hide the module {name!r}, which Python has already; rename the file")
    return run(name, place)


def origin(spec: ModuleSpec | None) -> Path | None:
    """The file that a module comes from; None for a mere folder."""
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve()


def executed(path: Path) -> bytes | None:
    """What a loaded file held when it was run; None for a file that was not loaded here."""
    return RUN.get(path.resolve())


class Loader(SourceFileLoader):
    """Compiles what the file holds: Python's own cache goes by time and size, which a quick edit may keep."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(RUN[Path(self.path)], self.path)


def run(name: str, path: Path) -> ModuleType:
    loader = Loader(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True  # gives the module its __file__
    module = importlib.util.module_from_spec(spec)
    RUN[path] = path.read_bytes()
    sys.modules[name] = module  # where dataclasses and pickle look for it
    try:
        loader.exec_module(module)
    except BaseException as error:  # also sys.exit, which would end the command as if all were well
        sys.modules.pop(name, None)
        if isinstance(error, KeyboardInterrupt):  # Ctrl-C, as far as anybody can tell
            raise KeyboardInterrupt(failure(path, error)) from error
        raise ValueError(failure(path, error)) from error
    return module


def failure(path: Path, error: BaseException) -> str:
    """What a file raised, and at which of its lines."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, SystemExit):
        what += "; a file to load must not end the program"
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines, what = [error.lineno], f"{type(error).__name__}: {error.msg}"
    if not lines or lines[-1] is None:
        return f"{path}: {what}"
    return f"{path}, line {lines[-1]}: {what}\n    {linecache.getline(str(path), lines[-1]).strip()}"

"""Run users' own Python files, which register operators, scorers, policies and datasets by name."""

import importlib.util
import linecache
import sys
import traceback
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

RUN: dict[Path, bytes] = {}  # the content of the files when they ran


def load_file(path: str | Path) -> ModuleType:
    """Run a Python file as a module named after it, once per process; files loaded later can import it."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path} to load")
    place = Path(path).resolve()
    if place.suffix != ".py":
        raise ValueError(f"a file to load must end in .py, got {path}")
    name = place.stem
    known = sys.modules.get(name)
    if known is not None and origin(known.__spec__) == place:
        if RUN.get(place) not in (None, place.read_bytes()):
            raise ValueError(
                f"{path} has changed since this process loaded it; start a new process to use the new version"
            )
        return known
    if known is not None or (name.isidentifier() and origin(importlib.util.find_spec(name)) not in (None, place)):
        raise ValueError(f"{path} would shadow the Python module {name!r}; rename the file")
    return run(name, place)


def origin(spec: ModuleSpec | None) -> Path | None:
    """The file that a module comes from; None for a namespace package."""
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve()


def executed(path: Path) -> bytes | None:
    """The content of a loaded file when it ran; None for a file that was not loaded here."""
    return RUN.get(path.resolve())


def loaded() -> dict[str, bytes]:
    """Names and contents of the files that this process has loaded, in their order."""
    known = {path: sys.modules.get(path.stem) for path in RUN}
    return {path.name: RUN[path] for path, module in known.items() if module and origin(module.__spec__) == path}


class Loader(SourceFileLoader):
    """Compiles the file's content: Python's own cache compares time and size, which a quick edit may keep."""

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
    """What a file raised, and at which line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, SystemExit):
        what += "; a file to load must not call sys.exit"
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines, what = [error.lineno], f"{type(error).__name__}: {error.msg}"
    if not lines or lines[-1] is None:
        return f"{path}: {what}"
    return f"{path}, line {lines[-1]}: {what}\n    {linecache.getline(str(path), lines[-1]).strip()}"

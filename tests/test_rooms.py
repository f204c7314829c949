"""The arrows between the rooms of the package, read from the imports."""

import ast
from pathlib import Path

import bigain

SOURCE = Path(bigain.__file__).parent
BASE = {"registry", "checks", "defaults", "escape", "profile", "seeds"}  # small modules that any room may use
ARROWS = {
    **{name: set() for name in BASE},
    "plugins": set(),
    "progress": set(),
    "cluster": set(),
    "pictures": set(),
    "metrics": set(),
    "tokens": set(),
    "operators": {"tokens"},
    "models": {"tokens"},
    "denoisers": {"models"},
    "data": set(),
    "compression": {"models", "operators", "tokens"},
    "tomesd": {"compression", "models", "operators"},
    "classify": {"denoisers", "models", "pictures"},  # not compression
    "generation": {"denoisers", "models"},
    "zoo": {"classify", "data", "denoisers", "generation", "metrics", "pictures", "progress"},
    "loading": {"denoisers", "zoo"},
    "sending": {"cluster", "denoisers", "loading", "plugins", "zoo"},
    "experiments": {
        "bench", "caching", "classify", "cluster", "compression", "data", "denoisers", "generation", "loading",
        "metrics", "models", "operators", "pictures", "plugins", "progress", "sending", "tokens", "zoo",
    },
    "bench": {"caching", "classify", "compression", "loading", "metrics", "models", "operators", "tokens", "zoo"},
    "plots": {"bench", "experiments", "metrics", "pictures", "tokens"},
    "commands": {
        "caching", "classify", "cluster", "compression", "data", "denoisers", "experiments", "generation", "loading",
        "metrics", "models", "operators", "pictures", "plots", "plugins", "progress", "sending", "tokens", "zoo",
    },
    "cli": {
        "bench", "caching", "classify", "cluster", "commands", "compression", "data", "experiments", "generation",
        "loading", "models", "operators", "plots", "plugins", "progress", "tokens", "zoo",
    },
    "__init__": {"caching", "classify", "compression", "generation", "loading", "models", "operators"},
    "caching": {"models"},
}  # fmt: skip


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names.add(node.module or "")
            if node.module == "bigain":
                names.update(f"bigain.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


FILES = sorted(SOURCE.rglob("*.py"))


def test_imports_follow_the_arrows() -> None:
    for path in FILES:
        here = room(path)
        ours = {name.split(".")[1] for name in imported(path) if name.startswith("bigain.")}
        assert ours - {here} - BASE <= ARROWS[here], path


def test_only_models_and_denoisers_import_diffusers() -> None:
    for path in FILES:
        uses = any(name.split(".")[0] in ("diffusers", "transformers") for name in imported(path))
        assert not uses or room(path) in ("models", "denoisers"), path


def test_files_fit() -> None:
    long = {path.name: count for path in FILES if (count := len(path.read_text().splitlines())) > 300}
    assert not long

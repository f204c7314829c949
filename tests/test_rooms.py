"""The arrows between the rooms of the package, read from the imports."""

import ast
from pathlib import Path

import pytest

import bigain

SOURCE = Path(bigain.__file__).parent
ARROWS = {
    "registry": set(),
    "checks": set(),
    "escape": set(),
    "seeds": set(),
    "plugins": set(),
    "tokens": {"registry"},
    "operators": {"checks", "tokens", "registry"},
    "backbones": {"checks", "tokens", "registry"},
    "data": {"checks", "registry"},
    "metrics": set(),
    "compression": {"backbones", "checks", "operators", "tokens"},
    "tomesd": {"operators", "backbones", "compression"},
    "classify": {"backbones", "checks", "registry", "seeds"},
    "generation": {"backbones", "checks", "seeds"},
    "progress": set(),
    "pictures": set(),
    "zoo": {"backbones", "classify", "data", "generation", "metrics", "pictures", "progress", "registry"},
    "bench": {
        "checks",
        "operators",
        "backbones",
        "classify",
        "compression",
        "data",
        "escape",
        "generation",
        "loading",
        "metrics",
        "pictures",
        "plots",
        "plugins",
        "zoo",
        "progress",
        "registry",
        "tokens",
    },
    "plots": {"bench", "escape", "registry"},  # of bench the types only
    "cli": {
        "operators",
        "backbones",
        "tokens",
        "bench",
        "classify",
        "escape",
        "generation",
        "loading",
        "plots",
        "plugins",
        "progress",
        "registry",
        "zoo",
        "data",
    },
    "loading": {"backbones", "checks", "zoo"},
    "__init__": {"operators", "backbones", "classify", "compression", "generation", "loading"},
}


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    here = room(path)
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("bigain.")}
    assert ours - {here} <= ARROWS[here]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_backbones_import_diffusers(path: Path) -> None:
    uses = any(name.split(".")[0] in ("diffusers", "transformers") for name in imported(path))
    assert not uses or room(path) == "backbones"

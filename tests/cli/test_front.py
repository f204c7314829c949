"""What all commands share: help, completion, exit codes, suggestions, imports."""

import ast
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.main import get_command

import bigain.cli
from bigain.cli import app
from bigain.cli.console import MEANINGS, Code, plain
from bigain.experiments.tables import FORMATS
from helpers.commands import invoke, picture_folders, run, write_operator

COMMANDS = get_command(app).commands
LIGHT = {"typer", "rich", "bigain.cli", "bigain.escape", "bigain.registry"}


def test_help_names_all_commands_and_exit_codes() -> None:
    shown = run("--help")
    assert all(f" {name} " in shown for name in COMMANDS)
    assert all(f"{code.value} {text}" in shown for code, text in MEANINGS.items())
    assert set(MEANINGS) == set(Code)


@pytest.mark.parametrize("words", [["bench", "--help"], ["list", "operators"], ["list", "data", "--json"]])
def test_a_reader_that_is_gone_causes_no_traceback(words: list[str]) -> None:
    command = [sys.executable, "-c", "from bigain.cli import app; app()", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as done:
        assert done.stdout is not None
        assert done.stderr is not None
        done.stdout.close()  # as `| head` does
        assert done.stderr.read() == ""
    assert done.returncode == 1


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", [80, 120])
def test_help_of_a_command_ends_with_examples(name: str, columns: int) -> None:
    done = invoke(name, "-h", env={"COLUMNS": str(columns)}, terminal_width=columns)
    assert done.exit_code == 0
    lines = [line.strip() for line in done.output.splitlines()]
    start = next(i for i, line in enumerate(lines) if line in ("Example:", "Examples:"))
    assert all(line.startswith("bigain ") and f" {name} " in f"{line} " for line in lines[start + 1 :] if line)
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize("name", COMMANDS)
def test_many_options_are_grouped(name: str) -> None:
    options = [param for param in COMMANDS[name].params if param.param_type_name == "option"]
    panels = [param.rich_help_panel for param in options]
    assert max(map(panels.count, panels)) <= 8
    assert "--json" in {option for param in options for option in param.opts}


def test_version() -> None:
    assert run("--version") == f"bigain {version('bigain')}"


def test_mistyped_commands_and_options() -> None:
    assert "Did you mean 'classify'?" in run("clasify", code=2)
    assert "Possible options: --model" in run("flops", "--modl", "sd2", code=2)


def test_a_traceback_on_demand() -> None:
    brief, long = run("list", "op", code=2), run("--traceback", "list", "op", code=2)
    assert brief.startswith("error: unknown list 'op'")
    assert long.startswith("Traceback")
    assert "ValueError: unknown list 'op'" in long


@pytest.mark.parametrize(
    ("does", "code", "text"),
    [
        ("raise RuntimeError('out of luck')", Code.BROKEN, "RuntimeError: out of luck"),
        ("import no_such_package", Code.MISSING, "error: No module named 'no_such_package'"),
        ("raise TypeError('no number')", Code.WRONG, "error: no number"),
        (
            "signal.raise_signal(signal.SIGINT)",
            Code.INTERRUPTED,
            "interrupted: 0 of 1 images are done; use --out FILE to keep results",
        ),
        (
            "signal.raise_signal(signal.SIGTERM)",
            Code.TERMINATED,
            "terminated: 0 of 1 images are done; use --out FILE to keep results",
        ),
        ("raise FloatingPointError('image 0, step 3: NaN; try float32')", Code.NOT_FINITE, "step 3: NaN; try float32"),
    ],
)
def test_what_an_operator_raises(does: str, code: Code, text: str, own_place: Path, small_model: Path) -> None:
    path, root = write_operator(own_place, does), picture_folders(own_place, 1)
    done = invoke("--load", path, "classify", root, "--model", small_model, "--operator", "mine(0.5)")
    assert done.exit_code == code
    assert done.stderr.rstrip().endswith(text)
    assert ("Traceback" in done.stderr) == (code is Code.BROKEN)
    assert done.stdout == ""


def test_what_json_can_hold() -> None:
    assert plain({"a": (Path("b"), float("nan"), 1.5), "c": None}) == {"a": ["b", None, 1.5], "c": None}


def completed(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    env = {"_BIGAIN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return invoke(env=env).output.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("bigain ", [*COMMANDS]),
        ("bigain cl", ["classify"]),
        ("bigain list s", ["scorers"]),
        ("bigain classify x.png --operator ga", ["gated_merge"]),
        ("bigain classify x.png --policy imagenet", ["imagenet-100", "imagenet-1k"]),
        ("bigain generate --model fashion-u", ["fashion-unet"]),
        ("bigain generate --device cu", ["cuda"]),
        ("bigain show x.png --operator to", ["todo", "toma", "tome"]),
        ("bigain flops --model sd2", ["sd2", "sd2-top"]),
        ("bigain report x --format ", [*FORMATS]),
        ("bigain train fashion-d", ["fashion-dit"]),
        ("bigain run ", []),  # the shell completes files
    ],
)
def test_completion(line: str, names: list[str]) -> None:
    assert completed(line) == names


def test_completion_knows_loaded_files(own_place: Path) -> None:
    path = write_operator(own_place)
    assert completed(f"bigain --load {path} classify x.png --operator m") == ["mine"]
    assert completed("bigain --load nowhere.py classify x.png --operator ga") == ["gated_merge"]


def test_completion_can_be_installed_and_works_in_bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # the shell is named, not looked for
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "HOME": str(tmp_path), "PATH": path, asked[0]: asked[1]}
    subprocess.run(["bigain", "--install-completion", "bash"], env=env, check=True, capture_output=True)
    script = tmp_path / ".bash_completions" / "bigain.sh"
    monkeypatch.setenv(*asked)
    assert run("--show-completion", "bash") == " ".join(script.read_text().split())
    line = f'source {script}; COMP_WORDS=(bigain list op); COMP_CWORD=2; _bigain_completion bigain; echo "$COMPREPLY"'
    done = subprocess.run(["bash", "-c", line], env=env, check=True, capture_output=True, text=True)
    assert done.stdout == "operators\n"


def test_help_brings_no_heavy_package() -> None:
    code = """
import sys
from typer.testing import CliRunner
from bigain.cli import app
for words in (["--help"], ["classify", "--help"], ["--version"]):
    assert CliRunner().invoke(app, words).exit_code == 0
print([m for m in ("torch", "diffusers", "transformers", "numpy", "scipy", "PIL", "matplotlib") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(Path(bigain.cli.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_heavy_imports_are_inside_functions(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in names:
                light = name.split(".")[0] in sys.stdlib_module_names or any(name.startswith(room) for room in LIGHT)
                assert light, name

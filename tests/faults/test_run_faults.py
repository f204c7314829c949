"""Files to load, experiments, and what they stand on: what is said of faults, and with which exit code."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bigain.experiments.folder import FILE
from helpers.commands import invoke
from helpers.own_files import forgetting
from helpers.small_runs import check, state, write_experiment

pytestmark = pytest.mark.slow

LOADED = {
    "exit": ("import sys\nsys.exit(0)", 2, "{path}, line 2: SystemExit: 0; a file to load must not call sys.exit"),
    "exit in words": ("raise SystemExit('bye')", 2, "{path}, line 1: SystemExit: bye; a file to load must not"),
    "exit within": ("def f():\n    exit(0)\nf()", 2, "{path}, line 2: SystemExit: 0"),
    "interrupt": ("\nraise KeyboardInterrupt", 130, "interrupted: {path}, line 2: KeyboardInterrupt"),
    "generator": ("raise GeneratorExit", 2, "{path}, line 1: GeneratorExit"),
    "recursion": ("def f(): f()\nf()", 2, "{path}, line 1: RecursionError: maximum recursion depth exceeded"),
    "system": ("import os\nos.stat('/nowhere')", 2, "{path}, line 2: FileNotFoundError"),
    "memory": ("raise MemoryError", 2, "{path}, line 1: MemoryError"),
}


@pytest.mark.parametrize("name", LOADED)
@pytest.mark.parametrize("way", ["option", "experiment"])
def test_files_that_end_the_program(name: str, way: str, tmp_path: Path) -> None:
    text, code, said = LOADED[name]
    path = tmp_path / "mine.py"
    path.write_text(text)
    toml = write_experiment(tmp_path, more='load = ["mine.py"]')
    words = ("--load", path, "list", "data") if way == "option" else ("run", toml, "--out", tmp_path / "run")
    with forgetting(tmp_path):
        check(words, said.format(path=path), code)
    assert not (tmp_path / "run").exists()


def test_files_that_are_none(tmp_path: Path) -> None:
    loop, pipe = tmp_path / "loop.py", tmp_path / "pipe.py"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    for path in (loop, pipe, tmp_path):
        check(("--load", path, "list", "data"), f"error: no file {path} to load", 3)


EXITS = """
import sys
from dataclasses import dataclass
from bigain.operators import OPERATORS, ToMe

@OPERATORS.register("leaves")
@dataclass(frozen=True)
class Leaves(ToMe):
    def plan(self, x, call):
        {}
"""


@pytest.mark.parametrize(("does", "code"), [("sys.exit(0)", 4), ("raise FloatingPointError('inf')", 2)])
def test_an_operator_that_gives_up(does: str, code: int, place: Path) -> None:
    (place / "leaves.py").write_text(EXITS.format(does))
    toml = write_experiment(place, operator="leaves(ratio=0.5)", more='load = ["leaves.py"]')
    with forgetting(place):
        result = invoke("run", toml, "--out", place / "new")
    assert result.exit_code == code, result.output
    assert does.partition("(")[0].split()[-1] in result.output or "leaves(ratio=0.5): cannot classify" in result.output
    assert set(state(place / "new")) == {FILE}


def test_changed_code_is_refused(place: Path) -> None:
    """Given to --load, so that the experiment does not name it."""
    path = place / "leaves.py"
    toml = write_experiment(place, operator="leaves(ratio=0.5)")
    for number, code in enumerate((0, 2)):
        path.write_text(EXITS.format(f"return super().plan(x, call)  # {number}"))
        with forgetting(place):
            text = "from other code; 1 of 1 changed since: leaves.py. Restore them" if code else "results in"
            check(("--load", path, "run", toml, "--out", place / "new"), text, code)


def test_changed_images_are_refused(place: Path) -> None:
    toml = write_experiment(place)
    check(("run", toml, "--out", place / "new"), "results in", 0)
    names = sorted(str(path.relative_to(place / "images")) for path in (place / "images").rglob("*.png"))
    for name in names[1:]:
        shutil.copy(place / "images" / names[0], place / "images" / name)
    check(("run", toml, "--out", place / "new"), f"{place / 'new' / FILE} has results from other images; ", 2)
    assert set(state(place / "new")) == {FILE}


def spoil(model: Path, value: float) -> None:
    """A weight of the last layer, which every output depends on."""
    path = model / "model" / "diffusion_pytorch_model.safetensors"
    found = load_file(path)
    found["conv_out.weight"] = torch.full_like(found["conv_out.weight"], value)
    save_file(found, path, metadata={"format": "pt"})


def test_changed_weights_are_refused(place: Path) -> None:
    toml = write_experiment(place)
    check(("run", toml, "--out", place / "new"), "results in", 0)
    spoil(place / "model", 0.0)
    check(("run", toml, "--out", place / "new"), "from other weights; 1 of … changed since: network.conv_out. Rest", 2)


GENERATE = "[generate]\ncount = 4\nnum_inference_steps = 2"


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        (["classify"], "none: cannot classify images 0 to 3: image …t = "),
        (["generate"], "none: cannot generate images 0"),
    ],
)
def test_weights_that_are_no_numbers_record_nothing(tasks: list[str], text: str, place: Path) -> None:
    spoil(place / "model", float("nan"))
    toml = write_experiment(place, tasks=tasks, more=GENERATE)
    check(("run", toml, "--out", place / "new"), f"error: {text}…. Nothing was recorded for them; check the weights", 2)
    assert not list((place / "new").rglob("*.png"))
    assert set(state(place / "new")) == {FILE}
    with closing(sqlite3.connect(place / "new" / FILE)) as base:
        for table in ("decisions", "generated", "measures", "skipped"):
            assert base.execute(f"select count(*) from {table}").fetchone() == (0,)


NAN = '{"n": 4, "FD-x": {"value": NaN, "floor": 0, "n": 4, "reference": "", "features": "x", "kind": "FD", "error": 0, '
NAN += '"parts": []}}'


@pytest.mark.parametrize(
    ("statement", "note"),
    [
        ("update generated set hash = 'black' where setting = 2", "all 4 images are identical"),
        (f"update measures set value = '{NAN}' where setting = 2 and name = 'samples'", "FD-x is not finite"),
    ],
)
def test_broken_images_of_old_records_are_told_in_words(statement: str, note: str, place: Path) -> None:
    toml = write_experiment(place, tasks=["generate"], more=GENERATE + "\nfeatures = 'fashion-features'")
    check(("run", toml, "--out", place / "new"), "results in", 0)
    check(("report", place / "new"), "FD-fashion", 0)
    with closing(sqlite3.connect(place / "new" / FILE, isolation_level=None)) as base:
        base.execute(statement)
    check(("report", place / "new"), f"| {note} |…todo(factor=2): {note}, so there are no distances", 0)


ROW = '[[rows]]\noperator = "none"\n'
HEAD = 'title = "x"\nmodel = "fashion-unet"\ndata = "fashion-sample"\nn = 2\ntasks = ["classify"]\n'
WRONG = {
    "": "title is missing",
    HEAD: "rows is missing",
    HEAD + "rows = []": "an experiment needs at least one table [[rows]]",
    HEAD + "rows = 3": "rows must be a list of tables, each under [[rows]], got 3",
    HEAD + "colour = 3\n" + ROW: "unknown experiment key 'colour'",
    HEAD + "generate = 3\n" + ROW: "generate must be a table, [generate] with a count, got 3",
    HEAD + "[generate]\nnum_inference_steps = 3\n" + ROW: "[generate] needs a count",
    HEAD + "[generate]\ncount = 0\n" + ROW: "count must be an int of at least 1, got 0",
    HEAD
    + "[generate]\ncount = 4\nnum_inference_steps = 'x'\n"
    + ROW: "num_inference_steps must be an int of at least 1, got 'x'",
    HEAD + "[generate]\ncount = 4\nguidance_scale = 'x'\n" + ROW: "guidance_scale must be a number, got 'x'",
    HEAD
    + "[generate]\ncount = 4\nguidance_scale = nan\n"
    + ROW: "guidance_scale must be a number of at least 0 (1 means no guidance), got nan",
    HEAD + "[generate]\ncount = 4\nfeatures = 3\n" + ROW: "features must be a string, got 3",
    HEAD + "[generate]\ncount = 4\nscheduler = 3\n" + ROW: "scheduler must be a string, got 3",
    HEAD
    + "[generate]\ncount = 3\nfeatures = 'fashion-features'\n"
    + ROW: "count must be at least 4 for a distance between images, got 3",
    HEAD + "timesteps = [1, 'x']\n" + ROW: "timesteps must be a string or a list of ints, got [1, 'x']",
    HEAD + "seed = 'x'\n" + ROW: "seed must be an int, got 'x'",
    HEAD + "load = 3\n" + ROW: "load must be a list of Python files",
    HEAD + "paper = 3\n" + ROW: "paper must be a list of tables, each under [[paper]], got 3",
    HEAD + "policy = 'exhaustiv(1)'\n" + ROW: "unknown policy 'exhaustiv'. Did you mean 'exhaustive'",
    HEAD + ROW + "n = 'x'": "name must be a string and n an int, got the row",
    HEAD + ROW + "name = 3": "name must be a string and n an int, got the row",
    HEAD + ROW + "n = -1": "the task classify needs n, the number of images",
    HEAD + ROW + "tasks = ['sing']": "unknown task 'sing'. Available: classify, generate",
    HEAD + ROW + ROW: "two rows are called 'none'; give them different names",
    HEAD + "[[rows]]\noperator = 'todo(2)'\nwhere = 3": "where must be a string, such as \"part='down'\", got 3",
    HEAD + "[[rows]]\noperator = 'todo(2)'\nreuse = 'x'": "reuse must be None or \"stage\", got 'x'",
    HEAD + "[[rows]]\noperator = 'tood(2)'": "unknown operator 'tood'. Did you mean 'todo'",
    HEAD + "[[rows]]\noperator = 'todo(factor={f})'\nf = []": "only a list of values is swept, got []",
    HEAD + "[[rows]]\noperator = 'todo(factor={g})'\nf = [2]": "sweeps ['f'] but its braces are ['g']",
    HEAD + "[[rows]]\nname = 'x'\nattach = [3]": "attach must be a list of tables, each with an operator",
    "a = " + "[" * 4000 + "]" * 4000: "lists or tables are nested too deeply for an experiment",
    "\udcff\udcfe": "'utf-8' codec can't decode byte 0xff",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text.removeprefix(HEAD)[:40])
def test_experiments_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    check(("run", path, "--out", tmp_path / "run"), f"error: {path}: …{WRONG[text]}", 2)
    assert not (tmp_path / "run").exists()

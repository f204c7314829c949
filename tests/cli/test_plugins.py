"""Files of one's own: `bigain --load` and `load` in experiments."""

import hashlib
from pathlib import Path

import pytest

import bigain
from bigain.experiments.experiment import build_experiment, read_experiment
from bigain.operators import OPERATORS
from bigain.plugins import load_file
from helpers.commands import invoke, picture_folders, run, run_json, write_operator
from helpers.own_files import OTHERS
from helpers.runs import contents


def test_an_operator_of_ones_own_by_name(own_place: Path, small_model: Path) -> None:
    path, root = write_operator(own_place), picture_folders(own_place / "images", 2)
    assert run_json("--load", path, "list", "operators")["mine"]["text"] == "My own merging"
    words = ("classify", root, "--model", small_model, "--policy", "exhaustive(2)", "--operator")
    mine = run_json("--load", path, *words, "mine(ratio=0.5, pattern='corner')")
    assert mine == run_json(*words, "tome(ratio=0.5, pattern='corner')")
    assert "Did you mean 'mine'" in run("--load", path, *words, "mien(0.5)", code=2)


def test_scorers_policies_and_data_of_ones_own(own_place: Path, small_model: Path) -> None:
    path, root = own_place / "others.py", picture_folders(own_place / "images", 1)
    path.write_text(OTHERS)
    shown = {what: run_json("--load", path, "list", what) for what in ("scorers", "policies", "data")}
    assert shown["scorers"]["flat"]["text"] == "The same for all"
    assert shown["policies"]["once"]["text"] == "Every class on one trial"
    assert shown["data"]["my-data"]["text"] == "Borrowed images"
    words = ("--model", small_model, "--policy", "once", "--operator", "gated_merge(0.5, scorer='flat')")
    assert run_json("classify", root, *words)["results"][0]["evaluations"] == 10


def test_in_python(own_place: Path) -> None:
    module = load_file(write_operator(own_place))
    assert module.__name__ == "my_operator"
    assert module.__file__ == str(own_place / "my_operator.py")
    assert bigain.parse("mine(0.5)") == module.Mine(0.5)
    assert load_file(str(own_place / ".." / own_place.name / "my_operator.py")) is module


def test_a_file_can_use_one_that_was_loaded_before(own_place: Path) -> None:
    first = write_operator(own_place)
    second = own_place / "second-part.py"  # no name for `import`, but a file
    second.write_text("from my_operator import Mine\nmade = Mine(0.5)")
    assert load_file(first).Mine(0.5) == load_file(second).made


@pytest.mark.parametrize(
    ("name", "text", "code", "error"),
    [
        ("my.txt", "", 2, "a file to load must end in .py, got {path}"),
        ("json.py", "", 2, "{path} would shadow the Python module 'json'; rename the file"),
        ("antigravity.py", "", 2, "{path} would shadow the Python module 'antigravity'"),  # known to Python, not loaded
        ("raises.py", "a = 1\n\nb = a / 0", 2, "{path}, line 3: ZeroDivisionError: division by zero b = a / 0"),
        ("syntax.py", "a = 1\nb = (", 2, "{path}, line 2: SyntaxError: '(' was never closed b = ("),
        ("within.py", "import json\njson.loads('[')", 2, "{path}, line 2: JSONDecodeError: Expecting value"),
        ("lacks.py", "import no_such_package", 2, "{path}, line 1: ModuleNotFoundError: No module named"),
        ("null.py", "\0", 2, "{path}: SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_files_that_cannot_be_loaded(name: str, text: str, code: int, error: str, own_place: Path) -> None:
    path = own_place / name
    path.write_text(text)
    assert error.format(path=path) in run("--load", path, "list", "data", code=code)


def test_files_that_are_not_there(own_place: Path) -> None:
    assert run("--load", "nowhere.py", "list", "data", code=3) == "error: no file nowhere.py to load"
    assert run("--load", own_place, "list", "data", code=3) == f"error: no file {own_place} to load"


def test_names_that_are_taken(own_place: Path) -> None:
    mine = write_operator(own_place)
    other = own_place / "other.py"
    other.write_text(mine.read_text())
    shown = run("--load", mine, "--load", mine, "--load", other, "list", "data", code=2)
    assert f"{other}, line 7: ValueError: the operator 'mine' is already registered" in shown
    folder = own_place / "sub"
    folder.mkdir()
    assert "would shadow the Python module 'my" in run("--load", write_operator(folder), "list", "data", code=2)


def test_a_file_of_an_experiment_lies_beside_it(own_place: Path) -> None:
    rows = [{"operator": "none"}, {"operator": "mine(ratio=0.5)"}]
    with pytest.raises(ValueError, match="unknown operator 'mine'"):
        build_experiment(contents(Path("model"), rows=rows))
    path = write_operator(own_place)
    found = build_experiment(contents(Path("model"), rows=rows, load=["my_operator.py"]), own_place)
    assert found.load == {"my_operator.py": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert found.identity()["load"] == found.load
    assert "mine" in OPERATORS


def test_an_experiment_without_files_is_written_down_without_them() -> None:
    assert "load" not in build_experiment(contents(Path("model"))).identity()


@pytest.mark.parametrize("load", ["my_operator.py", [1]])
def test_load_is_a_list_of_files(load: object) -> None:
    with pytest.raises(ValueError, match=r'load must be a list of Python files, such as \["my_operator.py"\], got'):
        build_experiment(contents(Path("model"), load=load))


def test_a_missing_or_broken_file_of_an_experiment(own_place: Path) -> None:
    path = own_place / "x.toml"
    head = "title = 'x'\nmodel = 'x'\ndata = 'x'\ntasks = ['classify']"
    path.write_text(f"{head}\nload = ['my.py']\n[[rows]]\noperator = 'none'")
    with pytest.raises(FileNotFoundError, match=r"no file .*my\.py to load"):
        read_experiment(path)
    (own_place / "my.py").write_text("raise KeyError(1)")
    with pytest.raises(ValueError, match=r"x\.toml: .*my\.py, line 1: KeyError: 1"):
        read_experiment(path)


def test_what_a_file_prints_is_its_own_business(own_place: Path) -> None:
    path = own_place / "talks.py"
    path.write_text("print('loading')")
    assert invoke("--load", path, "list", "data").stdout.startswith("loading\n")

"""The code of own operators and the like is part of what a record is compared by."""

from pathlib import Path
from typing import Any

import pytest

from bigain.experiments.experiment import build_experiment
from bigain.experiments.runner import Run
from bigain.experiments.sources import source_hashes
from bigain.loading import load
from bigain.plugins import load_file
from helpers.own_files import OTHERS, forgetting
from helpers.runs import contents, experiment, save_tiny, started

OPERATOR = """
from dataclasses import dataclass
from bigain.operators import OPERATORS, ToMe
from helper_of_mine import SHARE

@OPERATORS.register("mine")
@dataclass(frozen=True)
class Mine(ToMe):
    '''Mine.'''
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(folder: Path, more: str = "", share: float = 0.5) -> Path:
    (folder / "helper_of_mine.py").write_text(f"SHARE = {share}\n")
    (folder / "my_operator.py").write_text(OPERATOR + more)
    return folder / "my_operator.py"


def asked(**changes: Any) -> dict[str, Any]:
    return {"rows": [{"operator": "mine(ratio=0.5)"}], "tasks": ["classify"], "n": 2} | changes


@pytest.mark.parametrize(("change", "name"), [({"more": "# new\n"}, "my_operator"), ({"share": 0.7}, "helper_of_mine")])
def test_a_changed_operator_is_refused_by_its_file(change: dict[str, Any], name: str, model: Path, place: Path) -> None:
    """Loaded by hand, as `bigain --load` does: the experiment does not name the file."""
    with forgetting(place):
        load_file(write(place))
        run = started(model, place / "run", **asked())
        assert set(run.store.hashes("source")) == {"my_operator.py", "helper_of_mine.py"}
        started(model, place / "run", **asked())
    with forgetting(place):
        load_file(write(place, **change))
        text = rf"from other code; 1 of 2 changed since: {name}\.py\. Restore them, or use a new folder"
        with pytest.raises(ValueError, match=text):
            started(model, place / "run", **asked())


def test_a_file_that_an_experiment_names_is_named_too(model: Path, place: Path) -> None:
    write(place)
    own = contents(model, **asked(load=["my_operator.py"]))

    def begin() -> Run:
        return Run.start(build_experiment(own, place), place / "run", load(model))

    with forgetting(place):
        begin()
    write(place, more="# new\n")
    with forgetting(place), pytest.raises(ValueError, match=r"from other code; 1 of 2 changed since: my_operator\.py"):
        begin()


def test_an_imported_module_that_registers_counts(model: Path, place: Path) -> None:
    write(place)
    with forgetting(place):
        __import__("my_operator")
        assert set(source_hashes(experiment(model, **asked()))) == {"my_operator.py", "helper_of_mine.py"}


def test_scorers_policies_and_data_count(model: Path, place: Path) -> None:
    bound = "from functools import partial\nDATASETS.register('bound')(partial(my_data))\n"
    (place / "others.py").write_text(OTHERS + bound)
    plain = {"rows": [{"operator": "todo(factor=2)"}]}
    assert source_hashes(experiment(model, **plain)) == {}
    cases = [{"rows": [{"operator": "gated_merge(0.5, scorer='flat')"}]}, plain | {"policy": "once"}]
    cases += [plain | {"data": "my-data"}, plain | {"without": "my-data"}, plain | {"data": "bound"}]
    with forgetting(place):
        load_file(place / "others.py")
        for changes in cases:
            assert set(source_hashes(experiment(model, **changes))) == {"others.py"}


def test_a_file_that_changed_since_it_was_loaded_is_not_taken_for_the_old_one(place: Path) -> None:
    path = write(place)
    with forgetting(place):
        load_file(path)
        assert load_file(path) is load_file(path)
        path.write_text(path.read_text().replace("Mine.", "More."))  # as long, in the same second
        text = r"my_operator\.py has changed since this process loaded it; start a new process"
        with pytest.raises(ValueError, match=text):
            load_file(path)
    with forgetting(place):
        assert load_file(path).Mine.__doc__ == "More."  # no cache of Python's stands between

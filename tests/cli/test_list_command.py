import pytest

from bigain.cli.catalog import CATALOG, first_sentence
from helpers.commands import run, run_json


@pytest.mark.parametrize("what", CATALOG)
def test_list(what: str) -> None:
    lines = run_json("list", what)
    shown = run("list", what)
    assert len(lines) >= 2
    assert all(
        name in shown and entry["text"] and isinstance(entry["parameters"], list) for name, entry in lines.items()
    )


def test_parameters_as_json() -> None:
    found = run_json("list", "operators")["kv_downsample"]["parameters"]
    assert {"name": "factor", "required": False, "default": 2} in found
    assert all(parameter.keys() == {"name", "required", "default"} for parameter in found)
    assert run_json("list", "policies")["stages"]["parameters"][0]["default"] == [5, 20]
    assert run_json("list", "data")["folder"]["parameters"][0] == {"name": "root", "required": True, "default": None}
    assert run_json("list", "scorers")["laplacian_l1"]["parameters"] == []


def test_list_of_unknown_things() -> None:
    assert "Did you mean 'operators'" in run("list", "operator", code=2)


def test_first_sentences() -> None:
    class Documented:
        """A thing, eq. (6)
        and more. The rest is not shown.
        """

    assert first_sentence(Documented) == "A thing, eq. (6) and more"
    assert first_sentence(len) == "Return the number of items in a container"

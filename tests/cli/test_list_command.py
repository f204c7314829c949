import pytest
from commands import run, run_json

from bigain.cli.shelves import SHELVES, first_sentence


@pytest.mark.parametrize("what", SHELVES)
def test_list(what: str) -> None:
    lines = run_json("list", what)
    shown = run("list", what)
    assert len(lines) >= 3
    assert all(name in shown and text for name, text in lines.items())


def test_list_of_unknown_things() -> None:
    assert "did you mean 'operators'" in run("list", "operator", code=2)


def test_first_sentences() -> None:
    class Documented:
        """A thing, eq. (6)
        and more. The rest is not shown.
        """

    assert first_sentence(Documented) == "A thing, eq. (6) and more"
    assert first_sentence(len) == "Return the number of items in a container"

"""The examples, run as scripts in an empty folder."""

from pathlib import Path

import pytest

from helpers.doc_pages import ROOT, run_bigain, run_script, world

pytestmark = pytest.mark.slow

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "classify_folder.py": "photos/bag/test-01014.png: bag",
    "generate.py": "SSIM",
    "own_operator.py": "256     256      128",
    "sweep_and_plot.py": "drawn in sweep.png",
}


def test_each_example_is_known_and_short() -> None:
    assert [path.name for path in EXAMPLES] == list(SAYS)
    assert all(len(path.read_text().splitlines()) <= 30 for path in EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world(tmp_path):
        run_script(path, [])
    assert SAYS[path.name] in capsys.readouterr().out


def test_the_own_operator_on_the_command_line(tmp_path: Path) -> None:
    own = str(ROOT / "examples/own_operator.py")
    with world(tmp_path):
        shown = run_bigain(["--load", own, "list", "operators"], "examples")
        assert "every_row" in shown
        assert "every_row" not in run_bigain(["list", "operators"], "examples")

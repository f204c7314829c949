"""A small experiment that is done, for tests that damage what it left or change what it stood on."""

import shutil
from pathlib import Path
from typing import Any

from helpers.commands import invoke, picture_folders
from helpers.runs import save_tiny

EXPERIMENT = """
title = "Tiny"
model = "{model}"
data = "folder('{data}')"
n = 4
tasks = {tasks}
policy = "exhaustive(1)"
{more}
[[rows]]
operator = "none"
[[rows]]
operator = "{operator}"
"""


def write_experiment(place: Path, **changes: Any) -> Path:
    """An experiment on the folder's own model and images."""
    words = {"model": place / "model", "data": place / "images", "tasks": ["classify"], "more": ""}
    path = place / "tiny.toml"
    path.write_text(EXPERIMENT.format(**{**words, "operator": "todo(factor=2)", **changes}))
    return path


def finish(place: Path) -> Path:
    """A model, images, an experiment with both, and its run."""
    save_tiny(place / "model")
    picture_folders(place / "images", 8)
    done = invoke("run", write_experiment(place), "--out", place / "run")
    assert done.exit_code == 0, done.output
    return place


def copy(finished: Path, place: Path) -> Path:
    """A copy of all that; its record stands for the first one's experiment, which has other paths."""
    return shutil.copytree(finished, place, dirs_exist_ok=True)


def state(folder: Path) -> dict[str, bytes]:
    """All files of a run folder but the locks."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != "lock"}


def check(words: tuple[object, ...], text: str, code: int) -> None:
    """The command says all parts of the text and ends with the code."""
    result = invoke(*words)
    shown = " ".join(result.output.split())
    assert result.exit_code == code, shown
    assert "Traceback" not in shown
    for part in text.split("…"):
        assert part in shown

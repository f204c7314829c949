"""One cluster of three nodes for all tests that need Ray, which run in one process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.runs import save_tiny


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    from helpers.clusters import three_nodes  # Ray takes a moment

    with three_nodes() as found:
        yield found


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


EXPERIMENT = """
title = "Tiny"
model = "{model}"
data = "{data}"
n = {n}
tasks = {tasks}
policy = "exhaustive(1)"
load = ["moody.py"]

[generate]
count = 60
num_inference_steps = 1

[[rows]]
operator = "none"

[[rows]]
name = "moody"
operator = "{operator}"
ratio = {ratios}
"""


@pytest.fixture
def write(model: Path) -> Any:
    """Writes an experiment with the tiny model and the moody operator into a folder."""
    from helpers.clusters import write_operator

    def written(folder: Path, **changes: Any) -> Path:
        write_operator(folder)
        words = {"model": model, "data": "fashion-sample", "n": 20, "tasks": ["classify"], "ratios": [0.3]}
        path = folder / "tiny.toml"
        path.write_text(EXPERIMENT.format(**{**words, "operator": "moody(ratio={ratio})", **changes}))
        return path

    return written

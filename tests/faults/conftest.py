"""A finished run, and a copy of it to do harm to."""

from pathlib import Path

import pytest

from helpers.small_runs import copy, finish


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def place(finished: Path, tmp_path: Path) -> Path:
    return copy(finished, tmp_path)

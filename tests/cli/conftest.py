"""A tiny model for the commands, and what they need around them."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.commands import save_small_model
from helpers.own_files import forgetting


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run in the background and were told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def own_place(tmp_path: Path) -> Iterator[Path]:
    """A folder for files to load; what they register, and they themselves, are forgotten after the test."""
    with forgetting(tmp_path):
        yield tmp_path

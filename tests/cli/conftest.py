"""A tiny model for the commands; it also puts this folder on the path, for `commands`."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bigain.backbones.labelled import save_labelled
from bigain.zoo.command import smoke_data
from bigain.zoo.loop import SMOKE, Trainer
from bigain.zoo.recipes import RECIPES
from own_files import forgetting


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run in the background and were told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    recipe = RECIPES["fashion-dit"]
    tiny = recipe.architecture | {"num_layers": 3, "num_attention_heads": 1}
    trainer = Trainer(replace(recipe, architecture=tiny), smoke_data(), folder, SMOKE)
    save_labelled(folder, trainer.denoiser, "dit")
    return folder


@pytest.fixture
def own_place(tmp_path: Path) -> Iterator[Path]:
    """A folder for files to load; what they register, and they themselves, are forgotten after the test."""
    with forgetting(tmp_path):
        yield tmp_path

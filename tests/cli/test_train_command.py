import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.commands import run, run_json


@pytest.mark.parametrize("name", ["fashion-features", "cifar-features", "quickdraw-features"])
def test_smoke_of_the_features(name: str, tmp_path: Path) -> None:
    found = run_json("train", name, "--smoke", "--out", tmp_path)
    assert found == {"folder": str(tmp_path), "card": json.loads((tmp_path / "card.json").read_text())}
    assert found["card"]["accuracy"]["n"] == 100


def test_unknown_model_to_train() -> None:
    assert "Did you mean 'fashion-dit'" in run("train", "fashion-dot", "--smoke", code=2)


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    assert "leave out --data or --smoke" in run("train", "fashion-dit", "--smoke", "--data", tmp_path, code=2)
    assert "in whole epochs" in run("train", "fashion-features", "--smoke", "--stop-after", 100, code=2)


def test_data_that_is_not_there(tmp_path: Path) -> None:
    assert "no Fashion-MNIST in" in run("train", "fashion-dit", "--data", tmp_path, "--out", tmp_path, code=3)


@pytest.mark.parametrize(("saves", "kept"), [(1, False), (2, True)])
def test_an_interrupted_training_says_whether_it_can_go_on(
    saves: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, left = torch.save, saves

    def save_until_interrupted(*args: Any) -> None:
        nonlocal left
        save(*args)
        left -= 1
        if not left:
            signal.raise_signal(signal.SIGINT)  # before the checkpoint has its name

    monkeypatch.setattr(torch, "save", save_until_interrupted)
    shown = run("train", "fashion-unet", "--smoke", "--out", tmp_path, code=130)
    advice = f"interrupted: checkpoint in {tmp_path}; run the same command to continue"
    assert shown.endswith(advice if kept else "interrupted")
    assert (tmp_path / "checkpoint.pt").is_file() == kept

"""`bigain fit`, and the profile that it writes in use."""

import json
from pathlib import Path

from bigain import TimestepProfile
from helpers.commands import picture_folders, run, run_json


def test_a_profile_is_fitted_and_used(tmp_path: Path, small_model: Path) -> None:
    root, file = picture_folders(tmp_path / "photos", 12), tmp_path / "profile.json"
    options = ("--model", small_model, "--candidates", 4, "--trials", 3)
    shown = run("fit", root, "--out", file, *options)
    assert "3 timesteps, equal weights, from 12 labelled images: 12 images are too few to fit weights" in shown
    profile = TimestepProfile.load(file)
    assert len(profile.spreads) == 3
    fast = run_json("classify", root, "--model", small_model, "--policy", "fast", "--timesteps", file)["results"]
    every = run_json("classify", root, "--model", small_model, "--policy", "exhaustive(3)", "--timesteps", file)[
        "results"
    ]
    assert sum(r["evaluations"] for r in fast) < sum(r["evaluations"] for r in every)


def test_without_labels(tmp_path: Path, small_model: Path) -> None:
    root, file = picture_folders(tmp_path / "photos", 12), tmp_path / "profile.json"
    found = run_json(
        "fit", root, "--unlabelled", "--out", file, "--model", small_model, "--candidates", 2, "--trials", 2
    )
    assert found["profile"]["labelled"] is False
    assert found["left_out"] == {}
    assert found["profile"]["timesteps"] == json.loads(file.read_text())["timesteps"]


def test_images_in_other_folders_are_named(tmp_path: Path, small_model: Path) -> None:
    root, file = picture_folders(tmp_path / "photos", 12), tmp_path / "profile.json"
    for folder in list(root.iterdir())[:4]:
        folder.rename(root / f"other {folder.name}")
    (root / "broken.png").write_text("no image")
    shown = run("fit", root, "--out", file, "--model", small_model, "--candidates", 2, "--trials", 2, code=2)
    assert "not named after a class" in shown
    assert not file.exists()
    assert "10 labelled images are needed" in shown

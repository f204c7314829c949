"""run, report."""

from pathlib import Path

import pytest

from helpers.commands import invoke, picture_folders, run, run_json, write_operator

pytestmark = pytest.mark.slow

EXPERIMENT = """
title = "Tiny"
model = "{model}"
data = "fashion-sample"
n = 10
tasks = ["classify", "generate"]
policy = "exhaustive(1)"
[generate]
count = 10
num_inference_steps = 1
features = "fashion-features"
[[rows]]
name = "none"
operator = "none"
[[rows]]
name = "merge"
operator = "gated_merge(ratio={{ratio}})"
ratio = [0.3, 0.5]
[[paper]]
name = "merge"
ratio = 0.5
accuracy = 61.4
"""
OWN = """
title = "Own"
load = ["my_operator.py"]
model = "{model}"
data = "folder('{data}')"
n = 2
tasks = ["classify"]
policy = "exhaustive(1)"
[[rows]]
operator = "none"
[[rows]]
operator = "mine(ratio=0.5)"
"""


def test_run_and_report(tmp_path: Path, small_model: Path) -> None:
    path, folder = tmp_path / "tiny.toml", tmp_path / "run"
    path.write_text(EXPERIMENT.format(model=small_model))
    assert run("run", path, "--out", folder).endswith(f"results in {folder}; see them with `bigain report {folder}`")
    assert run_json("run", path, "--out", folder) == {"folder": str(folder), "left_out": {}}
    small = tmp_path / "small.sqlite"
    shown = run("report", folder, "--out", tmp_path / "report", "--record", small)
    assert "merge, ratio 0.5" in shown
    assert "61.4" in shown
    assert "FD-fashion against uncompressed" in shown
    assert shown.startswith(run("report", small))
    assert f"written: record {small}" in shown
    written = {p.name for p in (tmp_path / "report").iterdir()}
    assert {"table.md", "table.csv", "table.tex"} < written
    assert any(name.endswith(".svg") for name in written)
    found = run_json("report", folder, small)
    assert found[0] == found[1]
    assert found[0].keys() == {"title", "about", "experiment", "sessions", "rows", "dense", "against"}
    assert [row["label"] for row in found[0]["rows"]] == ["none", "merge, ratio 0.3", "merge, ratio 0.5"]
    assert found[0]["rows"][1]["accuracy"].keys() == {"hits", "n", "low", "high", "value"}
    dense, merged, _ = found[0]["rows"]
    apart = merged["samples"]["FD-fashion"]["value"] - dense["samples"]["FD-fashion"]["value"]
    assert merged["distance_changes"]["FD-fashion"]["value"] == pytest.approx(apart)
    assert 0 < merged["distance_changes"]["FD-fashion"]["error"] < 2 * merged["samples"]["FD-fashion"]["error"]
    path.write_text(path.read_text().replace("exhaustive(1)", "exhaustive(2)"))
    assert "another experiment" in run("run", path, "--out", folder, code=2)


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (("run", "nowhere.toml"), "error: nowhere.toml: No such file or directory", 3),
        (("run", "{here}"), "x.toml: Expected '=' after a key", 2),
        (("run", "{here}", "--threads", "0"), "greater than or equal to 1", 2),
        (("report", "nowhere"), "no record nowhere", 3),
        (("report", "nowhere", "--format", "latx"), "Did you mean 'latex'", 2),
        (("report", "a", "b", "--record", "c"), "--out and --record need exactly one run, got 2", 2),
        (("report", "a", "b", "--out", "c"), "--out and --record need exactly one run, got 2", 2),
        (
            ("report", "{here}"),
            "x.toml is not a bigain record (not an SQLite file) and is left unchanged; use a run folder",
            2,
        ),
    ],
)
def test_says_what_is_wrong(words: tuple[str, ...], text: str, code: int, tmp_path: Path) -> None:
    here = tmp_path / "x.toml"
    here.write_text("no experiment = [")
    shown = run(*(word.format(here=here) for word in words), code=code)
    assert text in shown


def own_experiment(place: Path, model: Path) -> Path:
    path = place / "own.toml"
    path.write_text(OWN.format(model=model, data=picture_folders(place / "images", 2)))
    return path


def test_an_experiment_loads_its_own_operator(own_place: Path, small_model: Path) -> None:
    write_operator(own_place)
    path, folder = own_experiment(own_place, small_model), own_place / "run"
    run("run", path, "--out", folder)
    (found,) = run_json("report", folder)
    assert [row["label"] for row in found["rows"]] == ["none", "mine(ratio=0.5)"]
    assert list(found["experiment"]["load"]) == ["my_operator.py"]


def test_an_interrupted_run_can_be_continued(own_place: Path, small_model: Path) -> None:
    stop = own_place / "stop"
    stop.touch()
    write_operator(own_place, f"os.path.exists({str(stop)!r}) and signal.raise_signal(signal.SIGINT)")
    path, folder = own_experiment(own_place, small_model), own_place / "run"
    done = invoke("run", path, "--out", folder)
    assert done.exit_code == 130
    assert done.stderr.endswith(f"interrupted: results so far are in {folder}; run the same command to continue\n")
    assert "Traceback" not in done.output
    stop.unlink()
    run("run", path, "--out", folder)
    assert [row["accuracy"]["n"] for row in run_json("report", folder)[0]["rows"]] == [2, 2]


def test_a_run_names_what_it_left_out(own_place: Path, small_model: Path) -> None:
    write_operator(own_place)
    path, folder = own_experiment(own_place, small_model), own_place / "run"
    bad = next((own_place / "images").rglob("*.png"))
    bad.write_bytes(b"no picture")
    found = run_json("run", path, "--out", folder, code=1)
    assert [Path(name).name for name in found["left_out"]] == [bad.name]
    assert "left out: " in run("run", path, "--out", folder, code=1)

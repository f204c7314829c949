"""classify as a stream: rows as they are decided, files that grow and are continued, early ends."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bigain.commands.results import COLUMNS, Growing, Result, read_kept
from helpers.commands import invoke, picture_folders, run, run_json, write_operator

pytestmark = pytest.mark.slow

ONCE = ("--policy", "exhaustive(1)")
SAME = "mine(0.5, pattern='fixed')"  # the same plan in every pass
FORMATS = ["results.csv", "results.jsonl"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, read by other means than ours."""
    text = path.read_text()
    assert text.endswith("\n")
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    return [json.loads(line) for line in text.splitlines()]


def ending(place: Path, does: str) -> Path:
    """An operator that does something at its fourth plan: some images are decided by then, others not yet opened."""
    count = place / "count"
    return write_operator(
        place, f"open({str(count)!r}, 'a').write('x'); os.path.getsize({str(count)!r}) == 4 and {does}"
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("number", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_an_early_end_keeps_what_is_done(
    name: str, number: str, code: int, word: str, own_place: Path, small_model: Path
) -> None:
    root, table = picture_folders(own_place / "images", 10), own_place / name
    operator = ending(own_place, f"signal.raise_signal(signal.{number})")
    words = ("--load", operator, "classify", root, "--model", small_model, *ONCE, "--operator", SAME)
    done = invoke(*words, "--out", table)
    assert done.exit_code == code
    rows = rows_of(table)
    assert 0 < len(rows) < 10
    advice = f"{word}: {len(rows)} of 10 images are done and saved in {table}; continue with --resume"
    assert done.stderr.endswith(f"{advice}\n")
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + len(rows) + 1  # a head, the rows, the accuracy
    assert lines[-1].startswith("accuracy ")
    assert lines[-1].endswith(f"n = {len(rows)}")
    more = invoke(*words, "--out", table, "--resume")
    assert more.exit_code == 0, more.output
    assert f"{len(rows)} of 10 images are already in {table}" in more.stderr
    assert more.stdout.splitlines()[-1].endswith("n = 10")
    assert len(more.stdout.splitlines()) == 1 + (10 - len(rows)) + 1
    (own_place / "count").write_text("more than four")
    whole = run_json(*words)
    found = {row["path"]: (row["label"], pytest.approx(float(row["margin"]), rel=1e-3)) for row in rows_of(table)}
    assert {r["path"]: (r["label"], r["margin"]) for r in whole["results"]} == found
    assert [r["path"] for r in whole["results"]] == sorted(found)


def test_an_early_end_prints_the_json_of_what_is_done(own_place: Path, small_model: Path) -> None:
    root = picture_folders(own_place / "images", 10)
    operator = ending(own_place, "signal.raise_signal(signal.SIGINT)")
    words = ("--load", operator, "classify", root, "--model", small_model, *ONCE, "--operator", SAME)
    found = run_json(*words, code=130)
    assert 0 < len(found["results"]) < 10
    assert found["accuracy"]["n"] == len(found["results"])


def test_images_are_opened_when_they_are_needed(own_place: Path, small_model: Path) -> None:
    root = picture_folders(own_place / "images", 10)
    last = sorted(root.rglob("*.png"))[-1]
    operator = ending(own_place, f"os.path.exists({str(last)!r}) and os.remove({str(last)!r})")
    words = ("--load", operator, "classify", root, "--model", small_model, *ONCE, "--operator", SAME)
    found = run_json(*words, code=1)
    assert len(found["results"]) == 9
    assert list(found["unreadable"]) == [str(last)]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_that_are_not_finite_end_it_without_a_row(name: str, own_place: Path, small_model: Path) -> None:
    root, table = picture_folders(own_place / "images", 10), own_place / name
    operator = ending(own_place, "(_ for _ in ()).throw(FloatingPointError('image 5, t = 5: NaN; try float32'))")
    words = ("--load", operator, "classify", root, "--model", small_model, *ONCE, "--operator", SAME)
    done = invoke(*words, "--out", table)
    assert done.exit_code == 5
    broken = sorted(root.rglob("*.png"))[5]
    assert done.stderr.endswith(f"error: {broken}, t = 5: NaN; try float32\n")
    assert "Traceback" not in done.stderr
    assert str(broken) not in done.stdout
    assert str(broken) not in {row["path"] for row in rows_of(table)}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cut", [1, 20, 70])
def test_half_a_row_is_repaired(name: str, cut: int, tmp_path: Path, small_model: Path) -> None:
    """As `kill -9` may leave it."""
    root, table = picture_folders(tmp_path / "images", 3), tmp_path / name
    words = ("classify", root, "--model", small_model, *ONCE, "--out", table)
    run(*words)
    whole = table.read_bytes()
    table.write_bytes(whole[:-cut])
    shown = run(*words, "--resume")
    assert "2 of 3 images are already in" in shown
    assert table.read_bytes() == whole


@pytest.mark.parametrize("name", FORMATS)
def test_half_a_beginning_is_repaired(name: str, tmp_path: Path, small_model: Path) -> None:
    root, table = picture_folders(tmp_path / "images", 1), tmp_path / name
    table.write_text("path,lab" if name.endswith("csv") else '{"path": "')
    run("classify", root, "--model", small_model, *ONCE, "--out", table, "--resume")
    assert len(rows_of(table)) == 1


@pytest.mark.parametrize(
    ("more", "same"),
    [
        (("--seed", "1"), False),
        (("--operator", "tome(0.5)"), False),
        (("--operator", "none"), True),
        (("--policy", "exhaustive(2)"), False),
        (("--policy", "exhaustive(trials=1)"), True),
        (("--classes", "bag,coat"), False),
        (("--top", "2"), False),
        (("--threads", "1"), True),
    ],
)
def test_other_settings_are_refused(more: tuple[str, ...], same: bool, tmp_path: Path, small_model: Path) -> None:
    root, table = picture_folders(tmp_path / "images", 1), tmp_path / "results.csv"
    words = ("classify", root, "--model", small_model, "--out", table)
    run(*words, *ONCE)
    before = table.read_bytes()
    shown = run(*words, *ONCE, *more, "--resume", code=0 if same else 2)
    assert ("was written with other settings" in shown) != same
    assert table.read_bytes() == before


def test_replaced_weights_are_refused(tmp_path: Path, small_model: Path) -> None:
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    model = tmp_path / "model"
    shutil.copytree(small_model, model)
    words = (
        "classify",
        picture_folders(tmp_path / "images", 1),
        "--model",
        model,
        *ONCE,
        "--out",
        tmp_path / "r.jsonl",
    )
    run(*words)
    weights = next(model.rglob("*.safetensors"))
    values = load_file(weights)
    name = next(key for key, value in values.items() if value.is_floating_point())
    values[name].flatten()[0] += torch.tensor(1.0, dtype=values[name].dtype)
    save_file(values, weights)
    assert "was written with other settings" in run(*words, "--resume", code=2)


def test_a_file_that_is_there_is_not_touched(tmp_path: Path, small_model: Path) -> None:
    root, table = picture_folders(tmp_path / "images", 1), tmp_path / "results.csv"
    words = ("classify", root, "--model", small_model, *ONCE, "--out", table)
    table.write_text("my own notes\n")
    assert "already exists; continue it with --resume, or use another file" in run(*words, code=2)
    assert "was not written by `bigain classify --out`" in run(*words, "--resume", code=2)
    assert table.read_text() == "my own notes\n"
    table.write_text(",".join(COLUMNS) + "\n")  # begun, and nothing decided
    run(*words)
    assert len(rows_of(table)) == 1


@pytest.mark.parametrize("line", ["a,b,c,d,e,f,g,h,i", "a,b,1,2,x,3,[],,s", '"a', '{"path": 1}'])
def test_damaged_rows_are_named(line: str, tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    table.write_text(",".join(COLUMNS) + f"\n{line}\n")
    if line == '"a':
        assert read_kept(table, "s").results == {}  # a row that is not whole
        return
    with pytest.raises(ValueError, match=r"results.csv was not written by `bigain classify --out`"):
        read_kept(table, "s")


def test_resumed_in_another_folder(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture_folders(tmp_path / "images", 2)
    monkeypatch.chdir(tmp_path)
    run("classify", "images", "--model", small_model, *ONCE, "--out", "r.csv")
    words = ("--model", small_model, *ONCE, "--resume", "--out", tmp_path / "r.csv")
    assert "2 of 2 images are already in" in run("classify", tmp_path / "images", *words)
    assert "2 of 2 images are already in" in run("classify", "./images/../images", *words)
    (tmp_path / "link").symlink_to("images")
    assert "2 of 2 images are already in" in run("classify", "link", *words)
    monkeypatch.chdir(tmp_path / "images")
    shown = run("classify", ".", *words, code=2)
    assert "has image paths relative to another folder" in shown


def test_odd_names_in_files_and_rows(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(picture_folders(tmp_path / "images", 1).rglob("*.png"))
    monkeypatch.chdir(tmp_path)
    folder = Path("odd")
    folder.mkdir()
    names = [
        "=1+1.png",
        "'q.png",
        "a\nb.png",
        "a\x1b[31m.png",
        'say "hi", x.png',
        "\u202egnp.png",
        "|<b>.png",
        "-x.png",
    ]
    for name in [*names, os.fsdecode(b"\xff.png")]:
        os.link(first, folder / name)
    monkeypatch.chdir(folder)
    for table in FORMATS:
        words = ("classify", ".", "--model", small_model, *ONCE, "--out", f"../{table}")
        done = invoke(*words)
        assert done.exit_code == 0, done.output
        assert len(done.stdout.splitlines()) == 1 + 9
        assert not {"\x1b", "\u202e"} & set(done.stdout)
        again = invoke(*words, "--resume")
        assert "9 of 9 images are already in" in again.stderr
        assert again.stdout == ""
    with Path("../results.csv").open(errors="surrogateescape", newline="") as file:
        cells = [row["path"] for row in csv.DictReader(file)]
    assert {"'=1+1.png", "''q.png", "'-x.png", "a\nb.png"} <= set(cells)


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_does_not_fit_is_taken_back(name: str, tmp_path: Path) -> None:
    """A full disk, made by the limit on the size of files."""
    code = f"""
import resource, signal, sys
from pathlib import Path
from bigain.commands.results import Growing, Result
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
row = Result("a" * 40, "bag", 0.5, 0.1, 0.1, 10, [("bag", 0.5)], None)
with Growing(Path({str(tmp_path / name)!r}), "s", 0) as file:
    file.add(row)
    size = Path({str(tmp_path / name)!r}).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30, size + 30))
    try:
        file.add(row)
    except OSError as error:
        print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert len(rows_of(tmp_path / name)) == 1


def test_rows_are_read_back(tmp_path: Path) -> None:
    row = Result(str(tmp_path / "=a.png"), "@b", 0.5, -1e-5, float("nan"), 10, [("@b", 0.5)], None)
    for name in FORMATS:
        with Growing(tmp_path / name, "s", 0) as file:
            file.add(row)
        (found,) = read_kept(tmp_path / name, "s").results.values()
        assert repr(found) == repr(row)


def test_rows_come_through_a_pipe_and_sigterm_ends_it(tmp_path: Path) -> None:
    """The real command: the first rows can be read while it works, and nothing of other libraries is said."""
    root, table = picture_folders(tmp_path / "images", 60), tmp_path / "r.jsonl"
    words = [sys.executable, "-c", "from bigain.cli import app; app()", "classify", root, "--policy", "exhaustive(20)"]
    command = subprocess.Popen([*words, "--out", table], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert command.stdout is not None
    head, row = command.stdout.readline(), command.stdout.readline()
    assert head.split() == ["image", "label", "probability", "margin"]
    assert row.startswith(str(root))
    command.send_signal(signal.SIGTERM)
    _, errors = command.communicate(timeout=60)
    assert command.returncode == 143
    assert 0 < len(rows_of(table)) < 60
    assert errors.splitlines()[-1].startswith("terminated: ")
    assert all(line.startswith(("terminated: ", "classifying")) for line in errors.splitlines() if line.strip())

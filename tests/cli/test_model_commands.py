"""classify, generate, show."""

import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from helpers.commands import invoke, picture_folders, run, run_json, write_operator

pytestmark = pytest.mark.slow


def test_classify_folders_with_a_bad_file(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path, 5)
    (root / "bad.png").write_bytes(b"no picture")
    words = ("classify", root, "--model", small_model, "--policy", "exhaustive(2)", "--top", "2")
    more = ("--operator", "gated_merge(0.5)", "--out", tmp_path / "new" / "r.csv")
    found = run_json(*words, *more, code=1)
    assert found.keys() == {"results", "unreadable", "accuracy"}
    assert len(found["results"]) == 5
    keys = {"path", "label", "probability", "margin", "margin_error", "evaluations", "top", "truth"}
    assert all(r.keys() == keys and len(r["top"]) == 2 and r["evaluations"] == 20 for r in found["results"])
    assert found["accuracy"].keys() == {"hits", "n", "low", "high", "value"}
    assert found["accuracy"]["n"] == 5
    assert list(found["unreadable"]) == [str(root / "bad.png")]
    assert len((tmp_path / "new" / "r.csv").read_text().splitlines()) == 6


def test_what_is_left_out_is_named_on_standard_error(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path, 1)
    (root / "bad[1].png").write_bytes(b"no picture")
    done = invoke("classify", root, "--model", small_model, "--policy", "exhaustive(1)")
    assert done.exit_code == 1
    assert "accuracy" in done.stdout
    assert f"not classified: {root / 'bad[1].png'}: " in done.stderr


def test_numbers_that_are_none_are_null(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path, 1)
    found = run_json("classify", root, "--model", small_model, "--policy", "exhaustive(1)")
    assert found["results"][0]["margin_error"] is None  # one trial has no standard error


@pytest.mark.parametrize("command", ["classify", "generate"])
def test_threads_are_used(command: str, tmp_path: Path, small_model: Path) -> None:
    before = torch.get_num_threads()
    words = {
        "classify": ("classify", picture_folders(tmp_path, 1), "--policy", "exhaustive(1)"),
        "generate": ("generate", "--count", "1", "--num-inference-steps", "1", "--out", tmp_path / "images"),
    }
    try:
        run(*words[command], "--model", small_model, "--threads", before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_classify_own_labels_and_globs(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path, 3)
    words = ("--classes", "bag, dress", "--policy", "race(max_trials=3)")
    shown = run("classify", root / "**" / "*.png", "--model", small_model, *words)
    assert "bag" in shown or "dress" in shown


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (("nowhere",), "no file or folder matches", 3),
        ((".", "--classes", "bag"), "classes must have at least two elements", 2),
        ((".", "--classes", "bag,bag"), "classes must be unique, got 'bag' more", 2),
        ((".", "--classes", "bag,hat"), "unknown class 'hat'", 2),
        ((".", "--policy", "rase"), "Did you mean 'race'", 2),
        ((".", "--operator", "todo(3.5)"), "factor", 2),
        ((".", "--where", "part='down'"), "--where needs --operator", 2),
        ((".", "--operator", "todo(2)", "--where", "part='middle'"), "no site at part middle", 2),
        ((".", "--top", "0"), "greater than or equal to 1", 2),
        ((".", "--device", "cdua"), "Did you mean 'cuda'", 2),
        ((".", "--device", "cuda:99"), "'cuda:99' cannot be used here", 2),
        ((".", "--model", "fashion-unt"), "Did you mean 'fashion-unet'", 2),
        ((".", "--prompts", "a photo"), "prompts must be a string with one {} for the class", 2),
        ((".", "--prompts", "{} and {}"), "prompts must be a string with one {} for the class", 2),
        (
            (".", "--classes", ",".join(["bag", "hat" * 100])),
            "unknown class 'hat",
            2,
        ),  # too long for the name of a file
    ],
)
def test_classify_says_what_is_wrong(
    words: tuple[str, ...], text: str, code: int, small_model: Path, tmp_path: Path
) -> None:
    root = str(picture_folders(tmp_path, 1))
    given = [root if word == "." else word for word in words]
    assert text in run("classify", "--model", small_model, *given, code=code).replace(" │ │ ", " ")


def test_what_cannot_be_shown_to_the_model_is_left_out(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path, 1)
    Image.new("LAB", (28, 28)).save(root / "lab.tif")
    Image.new("F", (28, 28)).save(root / "float.tif")
    found = run_json("classify", root, "--model", small_model, "--policy", "exhaustive(1)", code=1)
    assert len(found["results"]) == 1
    assert {Path(name).name for name in found["unreadable"]} == {"lab.tif", "float.tif"}


def test_names_that_are_no_utf8_and_folders_that_name_no_class(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path, 1)
    odd_name = Path(os.fsdecode(bytes(root / "other") + b"/\xff.png"))
    odd_name.parent.mkdir()
    Image.new("L", (28, 28)).save(odd_name)
    table = tmp_path / "found.csv"
    shown = run("classify", root, "--model", small_model, "--policy", "exhaustive(1)", "--out", table)
    assert "n = 1; 1 other image in folders not named after a class" in shown
    assert bytes(odd_name) in table.read_bytes()


def test_a_name_with_brackets_is_no_glob(tmp_path: Path, small_model: Path) -> None:
    for name in ("1.png", "[1].png"):
        Image.new("L", (28, 28)).save(tmp_path / name)
    words = ("classify", tmp_path / "1.png", tmp_path / "[1].png", "--model", small_model, "--policy", "exhaustive(1)")
    assert len(run_json(*words)["results"]) == 2


def test_fitted_timesteps_need_a_fit(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path, 1)
    assert "`bigain fit`" in run("classify", root, "--model", small_model, "--timesteps", "fitted", code=2)
    words = ("--timesteps", "900,100", "--policy", "exhaustive(2)", "--operator", "tome(0.5)")
    found = run_json("classify", root, "--model", small_model, *words)
    assert found["results"][0]["evaluations"] == 20


def test_classes_of_a_trial_share_one_plan_by_default(tmp_path: Path, small_model: Path) -> None:
    operator = ("--operator", "tome(0.5, pattern='per_row')", "--policy", "exhaustive(1)")
    words = ("classify", picture_folders(tmp_path, 1), "--model", small_model, *operator)
    said = ((), ("--groups", "input"), ("--groups", "none"))
    margins = [run_json(*words, *more)["results"][0]["margin"] for more in said]
    assert margins[0] == margins[1] != margins[2]


def test_generate_is_seeded_image_by_image(tmp_path: Path, small_model: Path) -> None:
    words = ("generate", "--model", small_model, "--num-inference-steps", "2", "--classes", "bag, coat")
    more = ("--operator", "kv_downsample(factor=2)")
    found = run_json(*words, *more, "--count", "3", "--out", tmp_path / "a")
    shown = run(*words, *more, "--count", "1", "--out", tmp_path / "b")
    assert shown.endswith(f"1 image in {tmp_path / 'b'}, contact sheet in {tmp_path / 'b' / 'sheet.png'}")
    names = ["00000.png", "00001.png", "00002.png", "sheet.png"]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == names
    paths = [str(tmp_path / "a" / name) for name in names]
    assert found == {"images": paths[:3], "sheet": paths[3]}
    assert (tmp_path / "a" / "00000.png").read_bytes() == (tmp_path / "b" / "00000.png").read_bytes()
    refused = run(*words, "--count", "1", "--out", tmp_path / "a", code=2)
    assert "2 images of an earlier run that would be mixed with the new ones, first 00001.png" in refused


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (("--prompt", "bag", "--classes", "coat"), "use only one of --prompt, --classes and --prompts-file", 2),
        (("--prompts-file", "nowhere.txt"), "no file nowhere.txt", 3),
        (("--prompt", "hat"), "unknown class 'hat'", 2),
        (("--count", "0"), "--count must be at least 1, got 0", 2),
        (("--scheduler", "eulr"), "Did you mean 'euler'", 2),
        (("--groups", "input"), "--groups needs --operator", 2),
        (("--groups", "cfg", "--operator", "tome(0.5)"), "or none, got cfg", 2),
        (("--operator", "tome(0.5)", "--where", "down"), "write them like part='down'", 2),
        (("--classes", "names.txt"), "no file names.txt", 3),
        (("--classes", "1,12"), "no class number 12; this model has 0..9", 2),
        (("--num-inference-steps", "0"), "num_inference_steps must be an int of at least 1", 2),
        (("--guidance-scale", "inf"), "guidance_scale must be a number of at least 0", 2),
        (("--classes", ","), "the list of classes or prompts is empty", 2),
        (("--cache", "evry(k=2)"), "unknown cache 'evry'. Did you mean 'every'", 2),
    ],
)
def test_generate_says_what_is_wrong(
    words: tuple[str, ...], text: str, code: int, small_model: Path, tmp_path: Path
) -> None:
    assert text in run("generate", "--model", small_model, "--out", tmp_path, *words, code=code)


def test_generate_with_a_cache_which_cannot_classify(tmp_path: Path, small_model: Path) -> None:
    words = ("generate", "--model", small_model, "--num-inference-steps", "3", "--count", "1")
    run(*words, "--out", tmp_path / "all")
    run(*words, "--out", tmp_path / "kept", "--cache", "every(k=3)")
    dense, kept = ((tmp_path / name / "00000.png").read_bytes() for name in ("all", "kept"))
    assert dense != kept
    refused = run("classify", tmp_path / "all" / "00000.png", "--model", small_model, "--cache", "every(k=3)", code=2)
    assert "--cache is for `bigain generate`: a cache reuses outputs of earlier sampler steps" in refused


def test_show_draws_a_picture(tmp_path: Path, small_model: Path) -> None:
    image = next(picture_folders(tmp_path, 1).rglob("*.png"))
    words = ("show", image, "--model", small_model, "--draws", "1")
    found = run_json(*words, "--operator", "tome(ratio=0.5)", "--out", tmp_path / "map.svg")
    assert found == {
        "picture": str(tmp_path / "map.svg"), "model": str(small_model), "operators": ["tome(ratio=0.5)"],
    }  # fmt: skip
    assert "<svg" in (tmp_path / "map.svg").read_text()
    assert "no site" in run(*words, "--site", "nowhere", code=2).lower()
    assert "unknown figure format 'gif'" in run(*words, "--out", tmp_path / "map.gif", code=2)


NAMES = {
    "plain": b"bag\ncoat\n",
    "mark": b"\xef\xbb\xbfbag\ncoat\n",
    "windows": b"\xef\xbb\xbfbag\r\ncoat\r\n\r\n",
    "old mac": b"bag\rcoat",
}


@pytest.mark.parametrize("kind", NAMES)
def test_files_of_names_from_any_system(kind: str, tmp_path: Path, small_model: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_bytes(NAMES[kind])
    root = picture_folders(tmp_path / "images", 1)
    words = ("--model", small_model)
    found = run_json("classify", root, *words, "--classes", names, "--policy", "exhaustive(1)", "--top", "5")
    assert {name for name, _ in found["results"][0]["top"]} == {"bag", "coat"}
    made = ("--num-inference-steps", "1", "--count", "2", "--out", tmp_path / "made")
    run("generate", *words, "--prompts-file", names, *made)
    run("generate", *words, "--classes", names, *made)


def test_the_operator_none_is_no_operator(tmp_path: Path, small_model: Path) -> None:
    root = picture_folders(tmp_path / "images", 1)
    words = ("classify", root, "--model", small_model, "--policy", "exhaustive(1)")
    assert run_json(*words) == run_json(*words, "--operator", "none")
    made = ("generate", "--model", small_model, "--num-inference-steps", "1", "--count", "1")
    run(*made, "--out", tmp_path / "a")
    run(*made, "--out", tmp_path / "b", "--operator", "none")
    assert (tmp_path / "a/00000.png").read_bytes() == (tmp_path / "b/00000.png").read_bytes()
    assert "--where needs --operator" in run(*words, "--operator", "none", "--where", "part='down'", code=2)
    (row,) = run_json("flops", "--model", "fashion-dit", "--operator", "none")
    assert (row["operator"], row["saved"]) == (None, 0)
    image = next(root.rglob("*.png"))
    shown = ("show", image, "--model", small_model, "--draws", "1", "--operator", "none", "--out", tmp_path / "map.svg")
    assert run_json(*shown)["operators"] == ["none"]
    rows = run_json("bench", "--model", "fashion-dit", "--rounds", "1", "--operator", "none")["rows"]
    assert [row["name"] for row in rows] == ["none"]


def test_generation_that_is_not_finite_leaves_no_sheet(own_place: Path, small_model: Path) -> None:
    made = own_place / "made"
    words = ("generate", "--model", small_model, "--num-inference-steps", "1", "--count", "1", "--out", made)
    run(*words)
    path = write_operator(own_place, "raise FloatingPointError('image 0, step 1: NaN; try float32')")
    (made / "00000.png").unlink()
    done = invoke("--load", path, *words, "--operator", "mine(0.5)")
    assert done.exit_code == 5
    assert done.stderr.endswith("error: image 0, step 1: NaN; try float32\n")
    assert "Traceback" not in done.stderr
    assert list(made.iterdir()) == []

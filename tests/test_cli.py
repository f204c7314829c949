"""The command line, run as a user would."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from diffusers import UNet2DConditionModel
from PIL import Image
from typer.testing import CliRunner

from bigain.backbones.labelled import save_labelled
from bigain.cli import app, parse_size
from bigain.data.fashion_mnist import fashion_sample
from bigain.zoo.command import smoke_data
from bigain.zoo.loop import SMOKE, Trainer
from bigain.zoo.recipes import RECIPES
from models import SD

runner = CliRunner()


def run(*words: str, code: int = 0) -> str:
    result = runner.invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def test_flops_of_one_operator_as_json() -> None:
    found = json.loads(run("flops", "--operator", "gated_merge(ratio=0.7)", "--reuse", "stage", "--json"))
    assert found["model"] == "sd2"
    assert found["operator"] == "gated_merge(ratio=0.7)"
    assert found["reuse"] == "stage"
    assert found["latent"] == "64x64"
    assert round(found["gflops"], 2) == 698.88


def test_flops_of_the_main_operators_as_json() -> None:
    rows = json.loads(run("flops", "--model", "dit-xl-2-256", "--json"))
    assert [row["operator"] for row in rows][:2] == ["none", "tome(ratio=0.7)"]
    assert all(row["gflops"] < rows[0]["gflops"] for row in rows[1:])


def test_flops_table_and_latent_size() -> None:
    shown = run("flops", "--operator", "todo(2)", "--latent", "32x48")
    assert "32x48 latents" in shown
    assert "todo(2)" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--model", "sd3"), "did you mean 'sd2'"),
        (("--operator", "gated_merg(0.7)"), "did you mean 'gated_merge'"),
        (("--operator", "gated_merge(0.9)"), "0.75"),
        (("--operator", "todo(2)", "--where", "level=9"), "no site at level 9"),
        (("--latent", "64"), "height x width"),
        (("--operator", "todo(2)", "--reuse", "step"), "reuse is None or"),
    ],
)
def test_flops_says_what_is_wrong(words: tuple[str, ...], text: str) -> None:
    assert text in " ".join(run("flops", *words, code=2).split())


def test_flops_of_a_model_folder(tmp_path: Path) -> None:
    UNet2DConditionModel(**SD).save_pretrained(tmp_path / "unet")
    found = json.loads(run("flops", "--model", str(tmp_path), "--operator", "todo(2)", "--json"))
    assert 0 < found["saved"] < 1


def picture_folders(root: Path, count: int) -> Path:
    sample = fashion_sample()
    for i in range(count):
        folder = root / sample.classes[sample.labels[i]].replace("/", "_")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample.images[i]).save(folder / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    recipe = RECIPES["fashion-dit"]
    tiny = recipe.architecture | {"num_layers": 3, "num_attention_heads": 1}
    trainer = Trainer(replace(recipe, architecture=tiny), smoke_data(), folder, SMOKE)
    save_labelled(folder, trainer.denoiser, "dit")
    return str(folder)


def test_classify_folders_with_a_bad_file(tmp_path: Path, small_model: str) -> None:
    root = picture_folders(tmp_path, 5)
    (root / "bad.png").write_bytes(b"no picture")
    words = ("classify", str(root), "--model", small_model, "--policy", "exhaustive(2)", "--top", "2")
    done = runner.invoke(app, [*words, "--json", "--operator", "gated_merge(0.5)", "--out", str(tmp_path / "r.csv")])
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert len(found["results"]) == 5
    assert all(len(r["top"]) == 2 and r["evaluations"] == 20 for r in found["results"])
    assert found["accuracy"]["n"] == 5
    assert list(found["unreadable"]) == [str(root / "bad.png")]
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 6


def test_classify_own_labels_and_globs(tmp_path: Path, small_model: str) -> None:
    root = picture_folders(tmp_path, 3)
    shown = run(
        "classify", str(root / "**" / "*.png"), "--model", small_model, "--classes", "bag, dress",
        "--policy", "race(max_trials=3)",
    )  # fmt: skip
    assert "bag" in shown or "dress" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("nowhere",), "no file, folder or glob"),
        ((".", "--classes", "bag"), "two classes or more"),
        ((".", "--classes", "bag,bag"), "may come once"),
        ((".", "--classes", "bag,hat"), "no class 'hat'"),
        ((".", "--policy", "rase"), "did you mean 'race'"),
        ((".", "--operator", "todo(3.5)"), "factor"),
    ],
)
def test_classify_says_what_is_wrong(words: tuple[str, ...], text: str, small_model: str, tmp_path: Path) -> None:
    root = str(picture_folders(tmp_path, 1))
    given = [root if word == "." else word for word in words]
    assert text in " ".join(run("classify", *given, "--model", small_model, code=2).split())


def test_informative_trials_need_a_measurement(tmp_path: Path, small_model: str) -> None:
    root = str(picture_folders(tmp_path, 1))
    shown = run("classify", root, "--model", small_model, "--trials", "informative", code=2)
    assert "choose_trials" in shown
    words = ["--trials", "900,100", "--policy", "exhaustive(2)", "--operator", "tome(0.5)", "--groups", "input"]
    done = runner.invoke(app, ["classify", root, "--model", small_model, *words, "--json"])
    found = json.loads(done.stdout)
    assert found["results"][0]["evaluations"] == 20


def test_generate_is_seeded_image_by_image(tmp_path: Path, small_model: str) -> None:
    words = ("generate", "--model", small_model, "--steps", "2", "--classes", "bag, coat")
    run(*words, "--count", "3", "--out", str(tmp_path / "a"), "--operator", "kv_downsample(factor=2)")
    run(*words, "--count", "1", "--out", str(tmp_path / "b"), "--operator", "kv_downsample(factor=2)")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["00000.png", "00001.png", "00002.png", "sheet.png"]
    assert (tmp_path / "a" / "00000.png").read_bytes() == (tmp_path / "b" / "00000.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--prompt", "bag", "--classes", "coat"), "not several of them"),
        (("--prompts-file", "nowhere.txt"), "no file nowhere.txt"),
        (("--prompt", "hat"), "no class 'hat'"),
        (("--count", "0"), "from 1; got 0"),
        (("--scheduler", "eulr"), "did you mean 'euler'"),
        (("--steps", "0"), "steps is an int from 1"),
    ],
)
def test_generate_says_what_is_wrong(words: tuple[str, ...], text: str, small_model: str, tmp_path: Path) -> None:
    shown = run("generate", "--model", small_model, "--out", str(tmp_path), *words, code=2)
    assert text in " ".join(shown.split())


def test_show_draws_a_picture(tmp_path: Path, small_model: str) -> None:
    root = picture_folders(tmp_path, 1)
    image = str(next(root.rglob("*.png")))
    run("show", image, "--model", small_model, "--draws", "1", "--out", str(tmp_path / "map.svg"))
    assert "<svg" in (tmp_path / "map.svg").read_text()
    assert "no site" in run("show", image, "--model", small_model, "--site", "nowhere", code=2).lower()


def test_run_and_report(tmp_path: Path, small_model: str) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(
        f"""
title = "Tiny"
model = "{small_model}"
data = "fashion-sample"
n = 10
tasks = ["classify", "generate"]
policy = "exhaustive(1)"
[generate]
count = 10
steps = 1
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
    )
    folder = tmp_path / "run"
    assert "bigain report" in run("run", str(path), "--out", str(folder))
    shown = run("report", str(folder), "--out", str(tmp_path / "report"), "--record", str(tmp_path / "small.sqlite"))
    assert "merge, ratio 0.5" in shown
    assert "61.4" in shown
    assert "FD-fashion" in shown
    again = run("report", str(tmp_path / "small.sqlite"))
    assert again == shown
    written = {p.name for p in (tmp_path / "report").iterdir()}
    assert {"table.md", "table.csv", "table.tex"} < written
    assert any(name.endswith(".svg") for name in written)
    path.write_text(path.read_text().replace("exhaustive(1)", "exhaustive(2)"))
    assert "another experiment" in run("run", str(path), "--out", str(folder), code=2)


@pytest.mark.parametrize("what", ["operators", "scorers", "policies", "data", "models", "architectures"])
def test_list(what: str) -> None:
    lines = json.loads(run("list", what, "--json"))
    shown = run("list", what)
    assert len(lines) >= 3
    assert all(name in shown and text for name, text in lines.items())


def test_list_of_unknown_things() -> None:
    assert "did you mean 'operators'" in run("list", "operator", code=2)


def test_sizes() -> None:
    assert parse_size("48x80") == (48, 80)

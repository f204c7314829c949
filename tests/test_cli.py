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


@pytest.mark.parametrize("what", ["operators", "scorers", "architectures"])
def test_list(what: str) -> None:
    lines = json.loads(run("list", what, "--json"))
    shown = run("list", what)
    assert len(lines) >= 5
    assert all(name in shown and text for name, text in lines.items())


def test_list_of_unknown_things() -> None:
    assert "did you mean 'operators'" in run("list", "operator", code=2)


def test_sizes() -> None:
    assert parse_size("48x80") == (48, 80)

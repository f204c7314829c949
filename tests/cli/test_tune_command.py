"""`bigain tune` on a tiny Stable Diffusion pipeline from a folder, and its setting wherever an operator is."""

import json
from pathlib import Path

import pytest

from bigain import Setting
from helpers.commands import run, run_json
from helpers.pipelines import save

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("sd", tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tuned(pipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One command, and little time: the best of what was verified by then."""
    out = tmp_path_factory.mktemp("tuned") / "setting.json"
    words = ("--save", "2%", "--classes", "cat,dog,cab", "--minutes", "0.05", "--held-out", "4", "--out", out)
    found = run_json("tune", "--model", pipe, *words, "--num-inference-steps", "2")
    assert found["setting"] == json.loads(out.read_text())
    assert found["page"] == str(out.with_suffix(".html"))
    return out


def test_one_command_tunes_a_pipeline_from_a_folder(tuned: Path) -> None:
    setting = Setting.load(tuned)
    assert setting.model["class"] == "UNet2DConditionModel"
    assert setting.measured["on"]["classes"] == ["cat", "dog", "cab"]
    assert setting.measured["kept"]["agreement"]["n"] >= 4
    beside = {path.name for path in tuned.parent.iterdir()}
    assert beside == {"setting.json", "setting.html", "setting.checkpoint.jsonl", "setting"}
    assert "bigain tune" in tuned.with_suffix(".html").read_text()


def test_the_setting_is_taken_wherever_an_operator_is(tuned: Path, pipe: Path, tmp_path: Path) -> None:
    (row,) = run_json("flops", "--model", pipe, "--operator", tuned, "--latent", "16x16")
    assert row["operator"] == "tuned to save 2%"
    assert row["saved"] == pytest.approx(Setting.load(tuned).measured["saved"]["generate"], abs=0.05)
    common = ("--model", pipe, "--operator", tuned)
    words = ("--prompt", "cat", "--count", "1", "--num-inference-steps", "2", "--out", tmp_path / "images")
    run("generate", *common, *words)
    (result,) = run_json("classify", tmp_path / "images" / "00000.png", *common, "--classes", "cat,dog")["results"]
    assert result["label"] in ("cat", "dog")
    refused = run("generate", *common, "--where", "part='down'", *words, code=2)
    assert "--where is part of" in refused
    refused = run("generate", "--model", "fashion-dit", "--operator", tuned, "--out", tmp_path / "x", code=2)
    assert "it was made for UNet2DConditionModel, and this is DiTTransformer2DModel" in refused


def test_presets_and_windows_are_words_of_the_command_line(pipe: Path) -> None:
    dense, fast, late = (
        run_json("flops", "--model", pipe, "--latent", "16x16", *words)[0]["gflops"]
        for words in ((), ("--operator", "fast"), ("--operator", "gated_merge(ratio=0.7)", "--when", "500-999"))
    )
    assert late == pytest.approx((dense + fast) / 2, rel=1e-3)
    assert "--when must be the first and last timestep" in run(
        "flops", "--operator", "todo(factor=2)", "--when", "late", code=2
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "give either --save or --keep"),
        (("--save", "30"), "did you mean 30%?"),
        (("--save", "lots"), "--save must be a share"),
        (("--keep", "120%"), "--keep must be a share"),
        (("--save", "30%", "--for", "generat"), "Did you mean 'generate'"),
        (("--save", "30%", "--out", "setting.txt"), "--out must be a JSON file"),
        (("--save", "30%", "--minutes", "0"), "--minutes must be above 0"),
        (("--save", "30%", "--for", "generate", "--images", "x"), "--images are classified"),
        (("--save", "30%", "--model", "fashion-unt"), "Did you mean 'fashion-unet'"),
    ],
)
def test_wrong_words_cost_no_time(words: tuple[str, ...], text: str) -> None:
    assert text in run("tune", *words, code=2)

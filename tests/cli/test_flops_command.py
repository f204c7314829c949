from pathlib import Path

import pytest
from diffusers import UNet2DConditionModel

from bigain import spec
from bigain.bench.flops import MAIN
from bigain.cli.options import parse_size
from helpers.commands import run, run_json
from helpers.models import BACKBONES, SD

pytestmark = pytest.mark.slow


def test_one_operator_as_json() -> None:
    (found,) = run_json("flops", "--operator", "gated_merge(ratio=0.7)", "--reuse", "stage")
    gflops, saved = found.pop("gflops"), found.pop("saved")
    assert found == {
        "model": "sd2", "operator": "gated_merge(ratio=0.7)", "reuse": "stage", "where": None, "latent": "64x64",
        "groups": None, "correct": None, "decision_gflops": None, "break_even": None,
        "refused": None,
    }  # fmt: skip
    assert round(gflops, 2) == 698.88
    assert saved == pytest.approx(1 - 698.88 / 804.257, abs=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pipeline's folder, as far as counting needs it."""
    place = tmp_path_factory.mktemp("pipeline")
    UNet2DConditionModel(**SD).save_pretrained(place / "unet")
    return place


def test_the_main_operators_as_json(folder: Path) -> None:
    rows = run_json("flops", "--model", folder, "--latent", "16x16")
    assert [(row["operator"], row["reuse"]) for row in rows] == [(None, None)] + [
        (spec(one.operator), one.reuse) for one in MAIN if one
    ]
    assert rows[0]["saved"] == 0
    assert all(row["gflops"] < rows[0]["gflops"] and 0 < row["saved"] < 1 for row in rows[1:])


def test_a_bundled_model() -> None:
    assert "0.2242" in run("flops", "--model", "fashion-unet")  # 4 tokens of text, not 77
    assert "is a feature network, not a diffusion model" in run("flops", "--model", "fashion-features", code=2)


def test_table_sites_and_latent_size(folder: Path) -> None:
    words = ("flops", "--model", folder, "--operator", "todo(2)", "--latent", "16x24")
    shown = run(*words)
    assert "16x24 latents" in shown
    assert "todo()" in shown
    (everywhere,), (down,) = run_json(*words), run_json(*words, "--where", "part='down'")
    assert (down["where"], down["latent"]) == ("part='down'", "16x24")
    assert 0 < down["saved"] < everywhere["saved"]


def test_a_table_with_operators_that_a_model_refuses(tmp_path: Path) -> None:
    BACKBONES["flux2"].build().save_pretrained(tmp_path)
    words = ("flops", "--model", tmp_path, "--latent", "16x16")
    rows = run_json(*words)
    refused = [row["operator"] for row in rows if row["refused"]]
    assert refused == ["todo()", "kv_downsample()", "kv_downsample(factor=4)"]
    assert all(row["gflops"] is None and row["saved"] is None for row in rows if row["refused"])
    shown = run(*words)
    assert shown.count("│ refused │") == 3
    assert "todo(), kv_downsample(), kv_downsample(factor=4) cannot run here: " in shown
    assert "refused" not in run(*words, "--where", "part='double'")
    assert "in one matrix" in run(*words, "--operator", "todo(2)", code=2)


def test_a_size_beyond_the_table_of_positions() -> None:
    shown = run("flops", "--model", "sd3-medium", "--latent", "400x128", code=2)
    assert "latents must be at most 384x384 for this SD3Transformer2DModel, got 400x128" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--model", "sd3"), "Did you mean 'sd2'"),
        (("--operator", "gated_merg(0.7)"), "Did you mean 'gated_merge'"),
        (("--operator", "GatedMerge(0.7)"), "Did you mean 'gated_merge'"),
        (("--operator", "gated_merge(0.7, scorer='laplacianl1')"), "Did you mean 'laplacian_l1'"),
        (("--operator", "gated_merge(0.9)"), "0.75"),
        (("--operator", "todo(2)", "--where", "downsample=9"), "no site at downsample 9"),
        (("--latent", "64"), "--latent must be HEIGHTxWIDTH"),
        (("--operator", "todo(2)", "--reuse", "step"), "reuse must be None or"),
    ],
)
def test_says_what_is_wrong(words: tuple[str, ...], text: str, folder: Path) -> None:
    assert text in run("flops", "--model", folder, *words, code=2)


def test_sizes() -> None:
    assert parse_size("48x80") == (48, 80)


def test_the_classes_of_a_trial() -> None:
    words = ("flops", "--model", "fashion-dit", "--operator", "gated_merge(ratio=0.7)")
    (plain,), (few,), (many,) = (
        run_json(*words, "--classes", "100"),
        *(run_json(*words, "--classes", count, "--correct") for count in ("2", "100")),
    )
    assert plain["groups"] == few["groups"] == "input"
    assert few["saved"] < many["saved"] < plain["saved"]
    assert few["break_even"] == many["break_even"] == 2
    (dense,) = run_json("flops", "--model", "fashion-dit", "--operator", "none", "--classes", "100")
    assert dense["decision_gflops"] == pytest.approx(dense["gflops"] * (5 * 100 + 15 * 5))
    assert "pays from 2 classes on" in run(*words, "--classes", "10", "--correct")
    assert "--correct needs --operator and --classes" in run(*words, "--correct", code=2)
    assert "--policy must be stages or exhaustive" in run(*words, "--classes", "10", "--policy", "race", code=2)

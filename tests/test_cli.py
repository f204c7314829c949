"""The command line, run as a user would."""

import json

import pytest
from typer.testing import CliRunner

from bigain.cli import app, parse_size

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


def test_flops_of_a_model_folder(tmp_path) -> None:
    from models import tiny_unet

    tiny_unet().save_pretrained(tmp_path / "unet")
    found = json.loads(run("flops", "--model", str(tmp_path), "--operator", "todo(2)", "--json"))
    assert 0 < found["saved"] < 1


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

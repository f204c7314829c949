"""Mistakes in words are told before anything heavy is imported, and other libraries say nothing."""

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from helpers.commands import invoke, picture_folders, run, write_operator
from helpers.pipelines import save

pytestmark = pytest.mark.slow

# words, the text of the error, and whether torch may be imported for it
MISTAKES: list[tuple[list[str], str, bool]] = [
    (["classify", "{images}", "--model", "fashion-unt"], "Did you mean 'fashion-unet'", False),
    (["classify", "{images}", "--model", "fashion-features"], "is a feature network", False),
    (["classify", "nowhere"], "no file or folder matches 'nowhere'", False),
    (["classify", "{images}", "--prompts", "a photo"], "one {{}} for the class", False),
    (["classify", "{images}", "--model", "{sd}"], "has no classes of its own; use --classes", False),
    (["classify", "{images}", "--classes", "none.txt"], "no file none.txt; expected class names", False),
    (["classify", "{images}", "--out", "r.xls"], "--out must end in .csv or .jsonl, got r.xls", False),
    (["classify", "{images}", "--groups", "cfg"], "or none, got cfg", False),
    (["classify", "{images}", "--reuse", "step"], "--reuse needs --operator", False),
    (["classify", "{images}", "--operator", "gated_merg(0.5)"], "Did you mean 'gated_merge'", True),
    (
        ["classify", "{images}", "--operator", "tome(0.5)", "--where", "prt=1"],
        "unknown where argument 'prt'. Did you mean 'part'",
        True,
    ),
    (["classify", "{images}", "--operator", "tome(0.5)", "--reuse", "step"], "reuse must be None or", True),
    (["classify", "{images}", "--policy", "rase"], "Did you mean 'race'", True),
    (["classify", "{images}", "--timesteps", "evn"], 'timesteps must be "even"', True),
    (["generate", "--model", "fashion-unt"], "Did you mean 'fashion-unet'", False),
    (["generate", "--model", "{sd}"], "this model needs text", False),
    (["generate", "--count", "0"], "--count must be at least 1, got 0", False),
    (["generate", "--prompts-file", "none.txt"], "no file none.txt", False),
    (["generate", "--operator", "tme(0.5)"], "Did you mean 'tome'", True),
    (["generate", "--cache", "evry(k=2)"], "Did you mean 'every'", True),
    (["show", "x.png", "--model", "fashion-unt"], "Did you mean 'fashion-unet'", False),
    (["show", "x.png", "--operator", "tme(0.5)"], "Did you mean 'tome'", True),
    (["flops", "--model", "sd3"], "Did you mean 'sd2'", True),
    (["flops", "--operator", "tme(0.5)"], "Did you mean 'tome'", True),
    (["flops", "--latent", "64"], "must be HEIGHTxWIDTH", True),
    (["bench", "--model", "sd3"], "unknown bundled model 'sd3'", True),
    (["bench", "--operator", "tme(0.5)"], "Did you mean 'tome'", True),
]
CODE = """
import json, sys
from typer.testing import CliRunner
from bigain.cli import app
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words, prog_name="bigain")
    heavy = [name for name in ("torch", "diffusers", "transformers", "scipy") if name in sys.modules]
    print(json.dumps([done.exit_code, " ".join(done.output.split()), heavy]))
"""


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("sd", tmp_path_factory.mktemp("pipeline"))


def test_words_are_checked_before_the_imports(tmp_path: Path, text_model: Path) -> None:
    images = picture_folders(tmp_path, 1)
    ordered = sorted(MISTAKES, key=lambda mistake: mistake[2])  # torch stays once it is there
    lines = [[word.format(images=images, sd=text_model) for word in words] for words, _, _ in ordered]
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(lines)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    for (words, text, torch), told in zip(ordered, done.stdout.splitlines(), strict=True):
        code, shown, heavy = json.loads(told)
        assert code in (2, 3), (words, shown)
        assert text.replace("{{}}", "{}") in shown
        assert set(heavy) <= ({"torch"} if torch else set()), words


def test_other_libraries_say_nothing(tmp_path: Path, text_model: Path) -> None:
    """The real command with a pipeline, whose parts have bars and warnings of their own."""
    words = [
        "generate",
        "--model",
        str(text_model),
        "--prompt",
        "abc",
        "--count",
        "1",
        "--num-inference-steps",
        "1",
        "--out",
        "made",
    ]
    command = [sys.executable, "-c", "from bigain.cli import app; app()", *words]
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TQDM", "TRANSFORMERS"))}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=quiet)
    assert done.stdout == f"1 image in made, contact sheet in {Path('made/sheet.png')}\n"
    assert all(line.startswith("generating ") for line in done.stderr.splitlines() if line.strip())


def test_warnings_of_ours_are_one_line_each(own_place: Path, small_model: Path) -> None:
    does = (
        "import logging, warnings; warnings.warn('mind\\n  the gap', stacklevel=1); "
        "logging.getLogger('diffusers').warning('noise'); "
        "warnings.warn_explicit('of others', UserWarning, '/lib/site-packages/other.py', 1)"
    )
    words = ("classify", picture_folders(own_place, 1), "--model", small_model, "--policy", "exhaustive(1)")
    done = invoke("--load", write_operator(own_place, does), *words, "--operator", "mine(0.5)")
    assert done.exit_code == 0, done.output
    told = [line for line in done.stderr.splitlines() if "classifying" not in line and line.strip()]
    assert told == ["warning: mind the gap"]


def test_all_is_as_before_after_a_command() -> None:
    before = (warnings.showwarning, logging.root.manager.disable, dict(os.environ))
    run("list", "data")
    assert (warnings.showwarning, logging.root.manager.disable, dict(os.environ)) == before

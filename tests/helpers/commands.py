"""The command, run as a user would."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from typer.testing import CliRunner, Result

from bigain.cli import app
from bigain.data.fashion_mnist import fashion_sample
from bigain.denoisers.labelled import save_labelled
from bigain.zoo.command import smoke_data
from bigain.zoo.loop import SMOKE, Trainer
from bigain.zoo.recipes import RECIPES

runner = CliRunner()


def invoke(*words: object, **options: Any) -> Result:
    return runner.invoke(app, [str(word) for word in words], prog_name="bigain", **options)


def run(*words: object, code: int = 0) -> str:
    """All that is printed, on one line."""
    result = invoke(*words)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def run_json(*words: object, code: int = 0) -> Any:
    """What --json prints: standard output holds nothing else."""
    result = invoke(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def picture_folders(root: Path, count: int) -> Path:
    """Bundled images in folders named after their classes."""
    sample = fashion_sample()
    for i in range(count):
        folder = root / sample.classes[sample.labels[i]].replace("/", "_")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample.images[i]).save(folder / f"{i}.png")
    return root


def save_small_model(folder: Path) -> Path:
    """A class-conditional model that is quick and knows nothing."""
    recipe = RECIPES["fashion-dit"]
    tiny = recipe.architecture | {"num_layers": 3, "num_attention_heads": 1}
    trainer = Trainer(replace(recipe, architecture=tiny), smoke_data(), folder, SMOKE)
    save_labelled(folder, trainer.denoiser, "dit")
    return folder


# an operator of one's own; `{}` is what it does before it plans
OPERATOR = """\
import os, signal
from dataclasses import dataclass

from bigain.operators import OPERATORS, ToMe


@OPERATORS.register("mine")
@dataclass(frozen=True)
class Mine(ToMe):
    '''My own merging. It is much like ToMe.'''

    def plan(self, x, call):
        {}
        return super().plan(x, call)
"""


def write_operator(folder: Path, does: str = "pass") -> Path:
    path = folder / "my_operator.py"
    path.write_text(OPERATOR.format(does))
    return path

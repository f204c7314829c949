"""Do the recipes lead to the same loss from another seed? Trains a tenth of each: `python benchmarks/seeds.py [NAME…]`.

Started again, it goes on from the last checkpoint in the run folder.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from bigain.progress import progress_bars
from bigain.zoo.catalog import MODELS
from bigain.zoo.command import learn, training_data
from bigain.zoo.loop import Trainer
from bigain.zoo.recipes import RECIPES

SEED = 1
NAMES = ("fashion-unet", "fashion-dit", "cifar-unet")
RESULT = Path(__file__).parent / "results" / "seeds.json"


def curve(name: str, place: Path, console: Console) -> list[dict[str, float]]:
    """The loss curve of another seed, as far as the last point of the card's within a tenth of its samples."""
    card = json.loads((MODELS / name / "card.json").read_text())
    last = max(point["samples"] for point in card["curve"] if point["samples"] <= card["samples_seen"] / 10)
    recipe = replace(RECIPES[name], seed=SEED)
    trainer = Trainer(recipe, training_data(recipe.data, None), place / name)
    with progress_bars(console) as bars:
        learn(trainer, last, bars)
    return trainer.run.curve


def main(names: list[str], place: Path) -> None:
    torch.set_num_threads(1)
    console = Console(stderr=True)
    found = json.loads(RESULT.read_text()) | {name: curve(name, place, console) for name in names}
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=NAMES, default=NAMES, help="models; all by default")
    parser.add_argument("--out", type=Path, default=Path("runs") / f"seed-{SEED}", help="the run folder")
    asked = parser.parse_args()
    main(list(asked.names), asked.out)

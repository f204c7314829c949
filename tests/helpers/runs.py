"""A tiny model of the bundled kind in a folder, and experiments with it."""

from pathlib import Path
from typing import Any

import torch

from bigain.data.fashion_mnist import CLASSES
from bigain.denoisers.base import ImageSpec
from bigain.denoisers.labelled import LabelledDenoiser, build_labelled, save_labelled
from bigain.denoisers.schedule import Schedule
from bigain.experiments.experiment import Experiment, build_experiment
from bigain.experiments.runner import Run
from bigain.experiments.store import Store
from bigain.loading import load
from bigain.zoo.recipes import RECIPES


def save_tiny(folder: Path) -> Path:
    torch.manual_seed(0)
    recipe = RECIPES["fashion-unet"]
    architecture = recipe.architecture | {"block_out_channels": [8, 16], "attention_head_dim": [1, 2]}
    model = build_labelled("unet", architecture, len(CLASSES), 2)
    save_labelled(folder, LabelledDenoiser(model, Schedule(**recipe.schedule), ImageSpec(28, 1, 2), CLASSES), "unet")
    return folder


def contents(model: Path, **changes: Any) -> dict[str, Any]:
    """What a TOML file would say."""
    return {
        "title": "Tiny",
        "model": str(model),
        "data": "fashion-sample",
        "n": 20,
        "tasks": ["classify", "generate"],
        "policy": "stages(trials=(1, 2), keep=(3, 1))",
        "generate": {"count": 30, "num_inference_steps": 1},
        "rows": [
            {"name": "none", "operator": "none"},
            {"name": "merge", "operator": "gated_merge(ratio={ratio})", "ratio": [0.3, 0.5]},
            {"name": "own", "operator": "tome(ratio=0.5, pattern='per_row')", "n": 17, "tasks": ["classify"]},
        ],
    } | changes


def experiment(model: Path, **changes: Any) -> Experiment:
    return build_experiment(contents(model, **changes))


def started(model: Path, folder: Path, **changes: Any) -> Run:
    return Run.start(experiment(model, **changes), folder, load(model))


def results(run: Run) -> dict[str, Any]:
    """Everything in the record of a run but times."""
    return record(run.store)


def record(store: Store) -> dict[str, Any]:
    """Everything in a record but times."""
    tables = {
        "decisions": "setting, image, truth, predicted, ranking, chances, evaluations, steps, errors",
        "generated": "setting, number, subject, hash, example",
        "settings": "*",
        "skipped": "*",
        "measures": "*",
    }
    return {
        name: store.base.execute(f"select {columns} from {name} order by 1, 2").fetchall()
        for name, columns in tables.items()
    }

"""Rows of experiments with a pruned model: how it is fitted, and what it costs stage by stage."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn

from bigain.denoisers.base import Denoiser
from bigain.experiments.calibration import Calibration
from bigain.experiments.subjects import class_conditions
from bigain.pruning import Gated, Pruned
from bigain.pruning.methods import parse_method


def fit(denoiser: Denoiser, method: str, calibration: Calibration | None, seed: int) -> Pruned | Gated:
    """What goes from the model of an experiment, by its calibration images with their labels."""
    chosen = parse_method(method)
    if calibration is None or not chosen.needs_images:
        trained: Pruned | Gated = chosen.fit(denoiser, seed=seed)
        return trained
    data = calibration.dataset(seed)
    labels = None
    if not data.multilabel:
        classes, prompts = class_conditions(denoiser, data)
        named = [prompts.format(name) if isinstance(name, str) else name for name in classes]
        labels = [named[example.labels[0]] for example in data.examples]
    found: Pruned | Gated = chosen.fit(denoiser, data, labels, seed)
    return found


def attach(network: nn.Module, pruned: Pruned | Gated | None) -> AbstractContextManager[Any]:
    return nullcontext() if pruned is None else pruned.attach(network)


def costs(network: nn.Module, pruned: Pruned | Gated | None, count: Callable[[], int]) -> list[int]:
    """What `count` counts in each stage or step; in a single one where nothing is pruned."""
    return [count()] if pruned is None else pruned.costs(network, count)

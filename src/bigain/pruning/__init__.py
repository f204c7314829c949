"""Structured pruning of diffusers models, with an exact undo."""

from typing import Any

from bigain.compression import forget_compiled
from bigain.denoisers.base import as_denoiser
from bigain.models.family import find_model
from bigain.models.stand_in import stands_in
from bigain.pruning.dipgo import DipGo
from bigain.pruning.gated import Gated
from bigain.pruning.gates import GateScores
from bigain.pruning.handle import Handle
from bigain.pruning.methods import METHODS, parse_method
from bigain.pruning.mosaic import Mosaic
from bigain.pruning.pruned import Pruned
from bigain.pruning.sequential import SequentialClassifier

__all__ = ["METHODS", "DipGo", "GateScores", "Gated", "Handle", "Mosaic", "Pruned", "SequentialClassifier", "prune"]


def prune(model: Any, method: Any, calibration: Any = None, *, labels: Any = None, seed: int = 0) -> Handle:
    """Prune a denoiser from `bigain.load` or a diffusers pipeline; the handle undoes it to the last bit.

    `method` is a string such as "mosaic(sparsity=0.3)", an instance, or what another handle has as `pruned`; the
    latter also goes on a network alone.

    `calibration` takes training images, 64 or more: paths, PIL images, arrays, tensors, or a dataset. `labels` are
    their classes or prompts; with them each image is seen under its own condition and under none, as in guidance.
    Noise is a hash of `seed` and the image.
    """
    network = find_model(model)
    if stands_in(network):
        raise ValueError(f"this {type(network).__name__} is already pruned; remove that handle first")
    if not isinstance(method, Pruned | Gated):
        chosen = parse_method(method)
        method = chosen.fit(as_denoiser(model), calibration, labels, seed)
    elif calibration is not None or labels is not None:
        raise TypeError("what was pruned before needs no calibration; leave calibration and labels out")
    handle: Handle = method.attach(network)
    forget_compiled()
    return handle

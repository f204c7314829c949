"""Fit timesteps and their weights to image files, and write them as a profile."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.images import to_tensor
from bigain.commands.request import ClassifyRequest, given_names, model_names
from bigain.experiments.subjects import by_folder
from bigain.loading import best_dtype, load_denoiser
from bigain.profile import TimestepProfile


class Fitting(NamedTuple):
    """What is fitted: how many timesteps are kept, of how many, and whether folders name the classes."""

    trials: int
    candidates: int
    labelled: bool


def fit_files(
    files: Sequence[Path],
    request: ClassifyRequest,
    fitting: Fitting,
    unreadable: Callable[[str, str], None],
    progress: Callable[[int], None],
) -> TimestepProfile:
    """The profile of a model for image files; `progress` gets the number of images as they are done."""
    denoiser = load_denoiser(request.model, device=request.device, dtype=best_dtype(request.device))
    names = model_names(denoiser, given_names(request.classes))
    classifier = DiffusionClassifier(denoiser, names, prompts=request.prompts, seed=request.seed)
    folders = by_folder(classifier.classes)
    images: list[Any] = []
    labels: list[str | int] = []
    for path in files:
        if fitting.labelled and path.parent.name not in folders:
            unreadable(str(path), f"its folder {path.parent.name!r} is not named after a class")
            continue
        try:
            images.append(to_tensor(path, denoiser.image_spec))
        except ValueError as error:
            unreadable(str(path), str(error))
            continue
        labels.append(folders.get(path.parent.name, ""))
    return classifier.fit(
        images,
        labels if fitting.labelled else None,
        trials=fitting.trials,
        candidates=fitting.candidates,
        progress=lambda _: progress(1),
    )

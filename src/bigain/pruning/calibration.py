"""Calibration: noised real latents of each stage, and the second moments of what the pruned layers get."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.checks import check_seed
from bigain.classify.images import to_tensor
from bigain.classify.trials import fingerprint
from bigain.data.dataset import Dataset
from bigain.denoisers.base import Condition, Denoiser
from bigain.progress import library_bar
from bigain.pruning.parts import Prunable
from bigain.pruning.trajectory import Stage, Stages
from bigain.seeds import hashed

Moments = dict[tuple[str, str], Tensor]  # by the names of a site and of its layer: (C, C) in float64


class Examples(NamedTuple):
    """Latents of images with their conditions: row r is image images[r] under condition[r]."""

    latents: Tensor
    fingerprints: tuple[int, ...]
    images: Tensor
    condition: Condition
    seed: int


@torch.no_grad()
def examples(denoiser: Denoiser, calibration: Any, labels: Any, seed: int) -> Examples:
    """Each image under the empty condition and, where there are labels, under its own."""
    images = list_of_images(calibration)
    named = None if labels is None else check_labels(labels, len(images))
    parts, marks = [], []
    for image in images:
        pixels = to_tensor(image, denoiser.image_spec)
        marks.append(fingerprint(pixels))
        parts.append(denoiser.encode(pixels[None]))
    empty, rows = denoiser.unconditional(1), torch.arange(len(images), device=denoiser.device)
    if named is None:
        condition, numbers, which = empty, torch.zeros_like(rows), rows
    else:
        classes = list(dict.fromkeys(named))
        own = torch.tensor([classes.index(name) for name in named], device=denoiser.device)
        condition = denoiser.conditions(classes).join(empty)
        numbers, which = torch.cat([own, torch.full_like(own, len(classes))]), rows.repeat(2)
    return Examples(torch.cat(parts), tuple(marks), which, condition.take(numbers), check_seed(seed))


def list_of_images(calibration: Any) -> list[Any]:
    """Images of a dataset, or as they come."""
    if isinstance(calibration, Dataset):
        return [example.image for example in calibration.examples]
    if calibration is None or isinstance(calibration, str) or not hasattr(calibration, "__iter__"):
        raise TypeError(
            "calibration must be images (paths, PIL images, arrays or tensors) or a dataset such as "
            f"load_data(…).subset(64), got {calibration!r}"
        )
    found = list(calibration)
    if not found:
        raise ValueError("calibration must have at least one image, better 64, got none")
    return found


def check_labels(labels: Any, count: int) -> list[str | int]:
    found = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if isinstance(labels, str) or len(found) != count:
        raise ValueError(f"labels must have one element per image, got {len(found)} for {count} images")
    return found


def timesteps(stage: Stage, count: int) -> Tensor:
    """Evenly spaced timesteps of a stage, one for each of `count` images: -> (n,)."""
    places = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    return stage.first + (places * (stage.last - stage.first)).long()


def noised(denoiser: Denoiser, given: Examples, number: int, stage: Stage) -> tuple[Tensor, Tensor]:
    """The images of a stage with noise that depends on the seed, the image and the stage: -> (n, C, H, W), (n,)."""
    t = timesteps(stage, len(given.latents)).to(given.latents.device)
    seeds = [hashed("prune", given.seed, mark, number) for mark in given.fingerprints]
    drawn = [torch.randn(given.latents.shape[1:], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return denoiser.schedule.add_noise(given.latents, torch.stack(drawn).to(t.device), t), t


@torch.no_grad()
def moments(denoiser: Denoiser, parts: Sequence[Prunable], stages: Stages, given: Examples) -> list[Moments]:
    """For each stage, H = X'X of the inputs of the layers whose columns may go."""
    rows, size = len(given.images), denoiser.rows_at_once()
    found: list[Moments] = []
    with library_bar("calibrating", len(stages.stages) * len(range(0, rows, size))) as advance:
        for number, stage in enumerate(stages.stages):
            noisy, t = noised(denoiser, given, number, stage)
            with gathering(denoiser.network, parts) as gathered:
                for start in range(0, rows, size):
                    chosen = torch.arange(start, min(start + size, rows), device=given.images.device)
                    which = given.images[chosen]
                    denoiser.output(noisy[which].to(denoiser.dtype), t[which], given.condition.take(chosen))
                    advance()
            found.append(gathered)
    return found


@contextmanager
def gathering(network: nn.Module, parts: Sequence[Prunable]) -> Iterator[Moments]:
    """Add up the second moments of the layers' inputs inside the `with` block."""
    found: Moments = {}

    def hook(key: tuple[str, str]) -> Any:
        def add(layer: nn.Module, args: Any) -> None:
            x = args[0].reshape(-1, args[0].shape[-1]).float()
            found[key] = found.get(key, 0) + (x.T @ x).to("cpu", torch.float64)

        return add

    hooks = [
        network.get_submodule(f"{part.site.name}.{name}").register_forward_pre_hook(hook((part.site.name, name)))
        for part in parts
        for name in part.last
    ]
    try:
        yield found
    finally:
        for each in hooks:
            each.remove()

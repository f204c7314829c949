"""Hashes of what decides results: images, weights, timestep profiles, and the code of users' own operators."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from bigain.data import Dataset
from bigain.denoisers.base import Denoiser
from bigain.profile import TimestepProfile

UNREADABLE = "unreadable"
LENGTH = 32  # hexadecimal digits: enough against chance, and small in a record that is committed


def image_hashes(sets: Sequence[Dataset]) -> dict[str, str]:
    """A hash of the content of each image by its name; images in several sets are read once."""
    found: dict[str, str] = {}
    for data in sets:
        for i, name in enumerate(data.names):
            if name not in found:
                found[name] = example_hash(data, i)
    return found


def example_hash(data: Dataset, number: int) -> str:
    """A hash of an image with its captions; an unreadable image has a hash of its own."""
    try:
        example = data.examples[number]
        found = image_hash(example.image)
        return digest([found.encode(), repr(example.captions).encode()]) if example.captions else found
    except (ValueError, OSError):
        return UNREADABLE


def image_hash(image: Any) -> str:
    """A hash of the file for a path; of the pixels with mode or dtype for anything else."""
    if isinstance(image, str | Path):
        return digest([Path(image).read_bytes()])
    if isinstance(image, Image.Image):
        palette = image.getpalette()
        words = (image.mode, image.size, palette, image.info.get("transparency"), image.getexif().get(0x0112))
        return digest([repr(words).encode(), image.tobytes()])
    if isinstance(image, Tensor):
        return digest(tensor_bytes(image))
    array = np.ascontiguousarray(image)
    return digest([f"{array.dtype.str} {array.shape}".encode(), array.tobytes()])


def weight_hashes(denoiser: Denoiser, **others: nn.Module) -> dict[str, str]:
    """A hash for each top part of each module: `network.down_blocks`, `text_encoder.text_model`, `labelled.prompts`.

    Every byte of the tensors counts, with their names, dtypes and shapes; `configuration` covers our own files. Tensors
    that two modules share belong to the first.
    """
    parts: dict[str, Any] = {}
    seen: set[int] = set()
    for part, module in {**modules(denoiser), **others}.items():
        for name, tensor in tensors(module):
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            hasher = parts.setdefault(".".join([part, *name.split(".")[:1]]).rstrip("."), hashlib.sha256())
            hasher.update(name.encode())
            for chunk in tensor_bytes(tensor):
                hasher.update(chunk)
    found = {name: hasher.hexdigest()[:LENGTH] for name, hasher in sorted(parts.items())}
    return found | {"configuration": digest([configuration(denoiser).encode()])}


def modules(denoiser: Denoiser) -> dict[str, nn.Module | Tensor]:
    """The network, other modules of the denoiser, and the parts of its pipeline in use."""
    found: dict[str, nn.Module | Tensor] = {"network": denoiser.network}
    found |= {name: value for name, value in vars(denoiser).items() if isinstance(value, nn.Module | Tensor)}
    pipeline = getattr(denoiser, "pipeline", None)
    used = {name: getattr(pipeline, name, None) for name in getattr(denoiser, "models", ())}
    return found | {name: value for name, value in used.items() if isinstance(value, nn.Module)}


def tensors(module: nn.Module | Tensor) -> Iterator[tuple[str, Tensor]]:
    if isinstance(module, Tensor):
        yield "", module
        return
    for name, value in sorted(module.state_dict(keep_vars=True).items()):
        if isinstance(value, Tensor):
            yield name, value


def tensor_bytes(tensor: Tensor) -> Iterator[Any]:
    """Add dtype, shape and values; a tensor on the meta device has no values."""
    yield f" {tensor.dtype} {tuple(tensor.shape)} ".encode()
    if not tensor.is_meta:
        yield tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def profile_hash(profile: TimestepProfile) -> str:
    """A hash of what of a profile decides results."""
    return digest([repr((profile.timesteps, profile.weights, profile.spreads, profile.scale)).encode()])


def configuration(denoiser: Denoiser) -> str:
    """What decides results besides tensors: schedule, image size, classes, VAE scale, vocabularies."""
    vae = getattr(getattr(denoiser, "vae", None), "config", {})
    pipeline = getattr(denoiser, "pipeline", None)
    tokenizers = [getattr(pipeline, name) for name in getattr(denoiser, "others", ()) if name.startswith("tokenizer")]
    return json.dumps(
        [
            list(vars(denoiser.schedule).values()),
            denoiser.image_spec,
            getattr(denoiser, "classes", None),
            [vae.get(key) for key in ("scaling_factor", "shift_factor")],
            [sorted(tokenizer.get_vocab().items()) for tokenizer in tokenizers],
        ],
        default=str,
    )


def digest(parts: Any) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()[:LENGTH]

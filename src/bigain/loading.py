"""`bigain.load`: a model by its bundled name, from a folder, or from the hub."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import torch

from bigain.registry import miss
from bigain.zoo.shelf import bundled

if TYPE_CHECKING:
    from bigain.backbones.denoiser import Denoiser
    from bigain.zoo.features import FeatureNet

LONGEST = 4096  # characters of a path
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


@overload
def load(  # type: ignore[overload-overlap]
    name: Literal["fashion-features", "cifar-features"], *, dtype: torch.dtype = ..., device: str = ...
) -> "FeatureNet": ...
@overload
def load(name: str | Path, *, dtype: torch.dtype = ..., device: str = ...) -> "Denoiser": ...
def load(name: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> "Denoiser | FeatureNet":
    """A model with all it needs to classify and generate: a bundled name, a folder, or a hub id (owner/name).

    Bundled models and folders never touch the network, and nothing is unpickled. Bundled `…-features` are no
    denoisers but the classifiers whose features serve Fréchet distances.
    """
    check_request(name, dtype)
    if is_features(name):
        from bigain.zoo.features import load_features

        return load_features(bundled()[str(name)]).to(device, dtype)
    return load_denoiser(name, dtype=dtype, device=device)


def check_request(name: object, dtype: object) -> None:
    """Of another type of numbers diffusers would only warn, and load float32."""
    if not isinstance(name, str | Path) or not str(name).strip() or len(str(name)) > LONGEST:
        raise ValueError(f"a model is a bundled name, a folder or a Hub model ID, got {shortened(name)}")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating-point type such as torch.float16, got {dtype!r}")


def shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def is_features(name: str | Path) -> bool:
    """Whether a bundled model has features only."""
    return str(name) in bundled() and not (bundled()[str(name)] / "bigain.json").is_file()


def load_denoiser(name: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> "Denoiser":
    """`load` for those who classify or generate with what they get."""
    check_request(name, dtype)
    names = {known: folder for known, folder in bundled().items() if not is_features(known)}
    if is_features(name):
        raise ValueError(f"{name} only gives features for a distance; models that classify and generate: {[*names]}")
    folder = names.get(str(name), Path(name))
    if (folder / "bigain.json").is_file():
        from bigain.backbones.labelled import load_labelled

        return load_labelled(folder, dtype, device)
    if not folder.is_dir() and (isinstance(name, Path) or not HUB_ID.fullmatch(name)):
        raise ValueError(f"{miss('bundled model', str(name), names)}; otherwise give a folder or a hub id (owner/name)")
    from bigain.backbones.pipelines import load_pipeline

    return load_pipeline(folder if folder.is_dir() else str(name), dtype, device)


def best_dtype(device: str) -> torch.dtype:
    """float16 on a GPU, as pipelines are run there; float32 on a CPU, which has no fast half precision."""
    return torch.float32 if device.startswith("cpu") else torch.float16

"""`bigain.load`: a model by its bundled name, from a folder or from the Hugging Face Hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import torch

from bigain.checks import check_count, shortened
from bigain.zoo.catalog import LABELLED, bundled, is_features, locate

if TYPE_CHECKING:
    from bigain.denoisers.base import Denoiser
    from bigain.zoo.features import FeatureNet

LONGEST = 4096  # characters of a path
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}  # by name


@overload
def load(  # type: ignore[overload-overlap]
    name: Literal["fashion-features", "cifar-features", "quickdraw-features"],
    *,
    dtype: torch.dtype = ...,
    device: str = ...,
    image_size: None = ...,
) -> "FeatureNet": ...
@overload
def load(
    name: str | Path, *, dtype: torch.dtype = ..., device: str = ..., image_size: int | None = ...
) -> "Denoiser": ...
def load(
    name: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu", image_size: int | None = None
) -> "Denoiser | FeatureNet":
    """Load a model that can classify and generate: a bundled name, a folder or a Hub model ID (owner/name).

    Bundled models and folders need no internet, and pickled weights are never read. Bundled `…-features` are not
    denoisers but classifiers, whose features serve Fréchet distances.
    `image_size` is the side in pixels of the square images that a pipeline generates and classifies; by default its
    own, 1024 for FLUX.1. It must be a multiple of the pixels of a token, 16 for most transformers.
    """
    check_request(name, dtype, image_size)
    if is_features(name):
        from bigain.zoo.features import load_features

        check_one_size(name, image_size)
        return load_features(bundled()[str(name)]).to(device, dtype)
    return load_denoiser(name, dtype=dtype, device=device, image_size=image_size)


def check_request(name: object, dtype: object, image_size: object = None) -> None:
    """Check here: for another dtype diffusers would only warn, and load float32."""
    if not isinstance(name, str | Path) or not str(name).strip() or len(str(name)) > LONGEST:
        raise ValueError(f"model must be a bundled name, a folder or a Hub model ID, got {shortened(repr(name))}")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating-point type such as torch.float16, got {dtype!r}")
    if image_size is not None:
        check_count("image_size", image_size)


def check_one_size(name: object, image_size: object) -> None:
    """Bundled models know one image size."""
    if image_size is not None:
        raise ValueError(f"image_size is for pipelines, and {name} is a bundled model of one size; leave it out")


def load_denoiser(
    name: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu", image_size: int | None = None
) -> "Denoiser":
    """Like `load`, for callers that need a denoiser."""
    check_request(name, dtype, image_size)
    place = locate(name)
    if isinstance(place, Path) and (place / LABELLED).is_file():
        from bigain.denoisers.labelled import load_labelled

        check_one_size(name, image_size)
        return load_labelled(place, dtype, device)
    from bigain.denoisers.pipelines import load_pipeline

    return load_pipeline(place, dtype, device, image_size)


def best_dtype(device: str) -> torch.dtype:
    """float16 on a GPU, as is usual for pipelines; float32 on a CPU, where half precision is slow."""
    return torch.float32 if device.startswith("cpu") else torch.float16

"""`bigain.load`: a denoiser by the name of a bundled model, from a folder, or from the hub."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from bigain.registry import miss
from bigain.zoo.shelf import bundled

if TYPE_CHECKING:
    from bigain.backbones.denoiser import Denoiser

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def load(name: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> "Denoiser":
    """A model with all it needs to classify and generate: a bundled name, a folder, or a hub id (owner/name).

    Bundled models and folders never touch the network, and nothing is unpickled.
    """
    names = bundled()
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

"""Architectures by name, built without weights on the meta device."""

import os
import warnings
from pathlib import Path
from typing import Any

import diffusers
import torch
from torch import Tensor, nn

from bigain.models.configs import check_sizes, read_json
from bigain.models.family import Example, Inputs, family_of, native_size
from bigain.models.named import ARCHITECTURES, check_named, prompt_length


def build_random(name: str, dtype: torch.dtype = torch.float32, device: str = "cpu") -> nn.Module:
    """A model with random weights, the same each time, by the name of its architecture."""
    class_name, config, *_ = ARCHITECTURES[name]
    check_memory(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = made(getattr(diffusers, class_name), config).to(device)
    return model if dtype == torch.float32 else model.to(dtype)  # asked to cast, diffusers warns


def check_memory(name: str) -> None:
    """Refuse what does not fit into the memory of this machine, before it is allocated."""
    weights = sum(weight.numel() for weight in build_meta(name).parameters())
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    if there is not None and 4 * weights > there:
        narrow = ", ".join(other for other in ARCHITECTURES if other.endswith("-narrow"))
        raise ValueError(
            f"{name} has {weights / 1e9:.1f} billion weights of {4 * weights / 1e9:.0f} GB, and this machine has "
            f"{there / 1e9:.0f} GB of memory; take {narrow}"
        )


def build_meta(name_or_folder: str) -> nn.Module:
    """A model without weights, by name or from a model's or pipeline's folder."""
    check_named(name_or_folder)
    named = ARCHITECTURES.get(name_or_folder)
    class_name, config = named[:2] if named else read_config(Path(name_or_folder))
    try:
        with torch.device("meta"):
            return made(getattr(diffusers, class_name), config)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, RuntimeError) as error:
        raise ValueError(f"{name_or_folder}: not a configuration of {class_name} ({error})") from error


def made(model_class: Any, config: Any) -> nn.Module:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`FluxPosEmbed` is deprecated")  # diffusers' Chroma uses it itself
        model: nn.Module = model_class.from_config(config).eval()
    return model


def meta_copy(model: Any) -> nn.Module:
    """A model of the same configuration without weights."""
    with torch.device("meta"):
        return made(type(model), model.config)


def share_weights(model: nn.Module) -> nn.Module:
    """A model with the same weights, not a copy of them."""
    other = meta_copy(model)
    for name, module in other.named_modules():
        source = model.get_submodule(name)
        module._parameters.update(source._parameters)
        module._buffers.update(source._buffers)
        # tables that are no buffers, such as the rotary ones of Qwen-Image, would stay without values
        vars(module).update({key: value for key, value in vars(source).items() if isinstance(value, Tensor)})
    return other


def read_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """Class name and configuration of the denoiser in a folder that diffusers wrote."""
    for place in (folder, folder / "unet", folder / "transformer"):
        if (place / "config.json").is_file():
            config = read_json(place / "config.json")
            if hasattr(diffusers, str(config.get("_class_name", ""))):
                check_sizes(config, place / "config.json")
                return config["_class_name"], config
    raise ValueError(f"{folder} holds no diffusers model: expected config.json there, in unet/ or in transformer/")


def example_inputs(
    model: Any, latent: tuple[int, int] | None = None, batch: int = 1, text_tokens: int | None = None
) -> Inputs:
    """Random inputs of the right shapes for a model of any family, on its device and in its dtype.

    `text_tokens` is the length of a prompt, by default as usual for the model's class.
    """
    height, width = latent or native_size(model)
    text_tokens = prompt_length("", type(model).__name__) if text_tokens is None else text_tokens
    return family_of(model).inputs(Example(model, height, width, batch, text_tokens))

"""Architectures by name, built without weights on the meta device."""

from pathlib import Path
from typing import Any

import diffusers
import torch
from torch import nn

from bigain.defaults import TEXT_TOKENS
from bigain.models.configs import check_sizes, read_json
from bigain.models.family import Example, Inputs, family_of, native_size
from bigain.models.named import ARCHITECTURES, check_named


def build_random(name: str, dtype: torch.dtype = torch.float32, device: str = "cpu") -> nn.Module:
    """A model with random weights, the same each time, by the name of its architecture."""
    class_name, config = ARCHITECTURES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(diffusers, class_name).from_config(config).to(device).eval()
    return model if dtype == torch.float32 else model.to(dtype)  # asked to cast, diffusers warns


def build_meta(name_or_folder: str) -> nn.Module:
    """A model without weights, by name or from a model's or pipeline's folder."""
    check_named(name_or_folder)
    named = ARCHITECTURES.get(name_or_folder)
    class_name, config = named or read_config(Path(name_or_folder))
    try:
        with torch.device("meta"):
            return getattr(diffusers, class_name).from_config(config).eval()
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, RuntimeError) as error:
        raise ValueError(f"{name_or_folder}: not a configuration of {class_name} ({error})") from error


def meta_copy(model: Any) -> nn.Module:
    """A model of the same configuration without weights."""
    with torch.device("meta"):
        return type(model).from_config(model.config).eval()


def share_weights(model: nn.Module) -> nn.Module:
    """A model with the same weights, not a copy of them."""
    other = meta_copy(model)
    for name, module in other.named_modules():
        source = model.get_submodule(name)
        module._parameters.update(source._parameters)
        module._buffers.update(source._buffers)
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
    model: Any, latent: tuple[int, int] | None = None, batch: int = 1, text_tokens: int = TEXT_TOKENS
) -> Inputs:
    """Random inputs of the right shapes for a model of any family, on its device and in its dtype."""
    height, width = latent or native_size(model)
    return family_of(model).inputs(Example(model, height, width, batch, text_tokens))

"""Architectures by name, built without weights on the meta device."""

from pathlib import Path
from typing import Any, NamedTuple

import diffusers
import torch
from torch import Tensor, nn

from bigain.defaults import TEXT_TOKENS
from bigain.models.configs import check_sizes, read_json
from bigain.models.named import ARCHITECTURES, check_named
from bigain.models.site import native_size


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


class Inputs(NamedTuple):
    """Arguments of a model call, by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def example_inputs(
    model: Any, latent: tuple[int, int] | None = None, batch: int = 1, text_tokens: int = TEXT_TOKENS
) -> Inputs:
    """Random inputs of the right shapes for a model of any family, on its device and in its dtype."""
    config, kind = model.config, type(model).__name__
    height, width = latent or native_size(model)

    def random(*shape: int) -> Tensor:
        return torch.randn((batch, *shape), device=model.device, dtype=model.dtype)

    latents = random(config["in_channels"], height, width)
    t = torch.full((batch,), 500, device=model.device)
    if kind == "DiTTransformer2DModel":
        return Inputs((latents, t), {"class_labels": torch.zeros_like(t)})
    if kind == "PixArtTransformer2DModel":
        text = random(text_tokens, config["caption_channels"])
        added: dict[str, Any] = {"resolution": None, "aspect_ratio": None}
        return Inputs((latents, text, t), {"added_cond_kwargs": added})
    kwargs: dict[str, Any] = {}
    if config.get("addition_embed_type") == "text_time":
        pooled = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
        kwargs["added_cond_kwargs"] = {"text_embeds": random(pooled), "time_ids": random(6)}
    if kind == "ControlNetModel":
        factor = 2 ** (len(config["conditioning_embedding_out_channels"]) - 1)
        kwargs["controlnet_cond"] = random(config["conditioning_channels"], factor * height, factor * width)
    return Inputs((latents, t, random(text_tokens, config["cross_attention_dim"])), kwargs)

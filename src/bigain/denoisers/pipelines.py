"""Pipelines from folders and the Hugging Face Hub, as denoisers; a new family is a new file and a line here."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import diffusers
import huggingface_hub
import torch
from safetensors import SafetensorError

from bigain.denoisers import dit, flux, pixart, qwen, sd3, stable_diffusion  # noqa: F401 - they register themselves
from bigain.denoisers.pipeline import PIPELINES, PipelineDenoiser, check_parts
from bigain.models.configs import check_sizes, read_json

INDEX = "model_index.json"


def from_pipeline(pipeline: Any, image_size: int | None = None) -> PipelineDenoiser:
    """The denoiser of a loaded pipeline, for its own image size or another one in pixels."""
    found = next((PIPELINES[cls.__name__] for cls in type(pipeline).__mro__ if cls.__name__ in PIPELINES), None)
    if found is None:
        raise TypeError(unsupported(type(pipeline).__name__))
    return found(pipeline, image_size)


def load_pipeline(
    place: Path | str, dtype: torch.dtype, device: str, image_size: int | None = None
) -> PipelineDenoiser:
    """Load a pipeline from its folder or by Hub model ID; pickled weights and custom code are never read."""
    folder = place if isinstance(place, Path) else fetch(place)
    index = read_index(folder)
    check_files(folder, index)
    try:
        pipeline = diffusers.DiffusionPipeline.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, local_files_only=True, **unneeded(index)
        )
        check_weights(pipeline, weighted(index))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ValueError(
            f"{folder} is not a complete {index['_class_name']} ({one_line(error)}); download or save it again"
        ) from error
    return from_pipeline(pipeline.to(device), image_size)


def check_weights(pipeline: Any, parts: Sequence[str]) -> None:
    """Check that no weights are missing: diffusers would leave them on the meta device."""
    for part in parts:
        absent = [name for name, value in getattr(pipeline, part).named_parameters() if value.is_meta]
        if absent:
            raise ValueError(f"{part} has no weights for {', '.join(absent[:3])}")


def fetch(name: str) -> Path:
    """The folder of a Hub pipeline in the cache; its index is checked before the weights are downloaded."""
    try:
        index = read_index(Path(huggingface_hub.snapshot_download(name, allow_patterns=[INDEX])))
    except (OSError, huggingface_hub.errors.HFValidationError) as error:
        raise ValueError(
            f"no folder {name}, and cannot download it from the Hugging Face Hub ({one_line(error)}); connect to the "
            "internet, log in with `hf auth login` if the model is private or gated, or pass a pipeline's folder"
        ) from None
    try:
        return Path(diffusers.DiffusionPipeline.download(name, use_safetensors=True, **unneeded(index)))
    except OSError as error:
        raise ValueError(
            f"cannot download {name} with safetensors weights, the only supported format ({one_line(error)})"
        ) from None


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def read_index(folder: Path) -> dict[str, Any]:
    """The index of a pipeline's parts; an unsupported class raises."""
    try:
        index: dict[str, Any] = dict(json.loads((folder / INDEX).read_text()))
    except FileNotFoundError:
        raise ValueError(f"{folder} has neither a bigain model (bigain.json) nor a pipeline ({INDEX})") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder / INDEX} is not a pipeline index ({error}); download or save it again") from error
    if index.get("_class_name") not in list(PIPELINES):
        raise ValueError(unsupported(index.get("_class_name")))
    return index


def listed_parts(index: dict[str, Any]) -> dict[str, Any]:
    """Names of parts and the libraries they come from; None means that the part was left out."""
    return {name: value[0] for name, value in index.items() if isinstance(value, list) and len(value) == 2}


def weighted(index: dict[str, Any]) -> tuple[str, ...]:
    """Parts with weights: those that are needed, and optional ones that the pipeline has."""
    family, parts = PIPELINES[index["_class_name"]], listed_parts(index)
    return family.models + tuple(name for name in family.optional_models if parts.get(name))


def unneeded(index: dict[str, Any]) -> dict[str, Any]:
    """Arguments that leave out parts that are not needed, such as the safety checker, or not there."""
    family, parts = PIPELINES[index["_class_name"]], listed_parts(index)
    optional = family.optional_models + family.optional_others
    absent = [name for name in optional if not parts.get(name)]
    left_out = [name for name in parts if name not in family.models + family.others + optional]
    found: dict[str, Any] = dict.fromkeys(left_out + absent)
    return found | ({"requires_safety_checker": False} if "safety_checker" in found else {})


def check_files(folder: Path, index: dict[str, Any]) -> None:
    """Check that all parts are there, with safetensors weights."""
    family = PIPELINES[index["_class_name"]]
    parts = [name for name, library in listed_parts(index).items() if library and (folder / name).is_dir()]
    check_parts(str(folder), family, parts)
    for file in sorted(folder.glob("*/*config.json")):
        if file.parent.name in (*family.models[:1], "vae", "scheduler"):
            check_sizes(read_json(file), file)
    for part in weighted(index):
        if not any((folder / part).glob("*.safetensors")):
            pickled = ", ".join(path.name for path in sorted((folder / part).glob("*.bin")))
            came = f"only pickled weights ({pickled}), which can run code when loaded" if pickled else "no weights"
            raise ValueError(
                f"{folder / part} holds {came}; download the safetensors files, or convert trusted weights "
                "with pipeline.save_pretrained"
            )


def unsupported(name: object) -> str:
    return f"{name} is not supported. Supported: {', '.join(sorted(PIPELINES))}"

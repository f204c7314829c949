"""Pipelines from folders and the Hugging Face Hub, as denoisers; a new family is a new file and a line here."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import diffusers
import huggingface_hub
import torch
from safetensors import SafetensorError

from bigain.denoisers import dit, pixart, stable_diffusion  # noqa: F401 - they register themselves
from bigain.denoisers.pipeline import PIPELINES, PipelineDenoiser, check_parts
from bigain.models.configs import check_sizes, read_json

INDEX = "model_index.json"


def from_pipeline(pipeline: Any) -> PipelineDenoiser:
    """The denoiser of a loaded pipeline."""
    found = next((PIPELINES[cls.__name__] for cls in type(pipeline).__mro__ if cls.__name__ in PIPELINES), None)
    if found is None:
        raise TypeError(unsupported(type(pipeline).__name__))
    return found(pipeline)


def load_pipeline(place: Path | str, dtype: torch.dtype, device: str) -> PipelineDenoiser:
    """From a pipeline's folder, or by its id on the Hugging Face hub; pickled weights and code are not read."""
    folder = place if isinstance(place, Path) else fetch(place)
    index = read_index(folder)
    check_files(folder, index)
    try:
        pipeline = diffusers.DiffusionPipeline.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, local_files_only=True, **unneeded(index)
        )
        check_weights(pipeline, PIPELINES[index["_class_name"]].models)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ValueError(
            f"{folder} is not a whole {index['_class_name']} ({one_line(error)}); fetch or save it again"
        ) from error
    return from_pipeline(pipeline.to(device))


def check_weights(pipeline: Any, parts: Sequence[str]) -> None:
    """Where the files lack weights, diffusers leaves them on the meta device."""
    for part in parts:
        absent = [name for name, value in getattr(pipeline, part).named_parameters() if value.is_meta]
        if absent:
            raise ValueError(f"{part} has no weights for {', '.join(absent[:3])}")


def fetch(name: str) -> Path:
    """The folder of a pipeline from the hub, in the hub's cache; its index is looked at before the weights come."""
    try:
        index = read_index(Path(huggingface_hub.snapshot_download(name, allow_patterns=[INDEX])))
    except (OSError, huggingface_hub.errors.HFValidationError) as error:
        raise ValueError(
            f"no folder {name} here, and cannot fetch it from the Hugging Face hub ({one_line(error)}); connect to the "
            "internet, log in with `hf auth login` if the model is private or gated, or give a pipeline's folder"
        ) from None
    try:
        return Path(diffusers.DiffusionPipeline.download(name, use_safetensors=True, **unneeded(index)))
    except OSError as error:
        raise ValueError(
            f"cannot fetch {name} with safetensors weights, the only ones read ({one_line(error)})"
        ) from None


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def read_index(folder: Path) -> dict[str, Any]:
    """What a pipeline is made of, if it is of a supported class."""
    try:
        index: dict[str, Any] = dict(json.loads((folder / INDEX).read_text()))
    except FileNotFoundError:
        raise ValueError(f"{folder} holds neither a bigain model (bigain.json) nor a pipeline ({INDEX})") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder / INDEX} is no index of a pipeline ({error}); fetch or save it again") from error
    if index.get("_class_name") not in list(PIPELINES):
        raise ValueError(unsupported(index.get("_class_name")))
    return index


def listed_parts(index: dict[str, Any]) -> dict[str, Any]:
    """Names of parts and the libraries that they come from; None means that the part was left out."""
    return {name: value[0] for name, value in index.items() if isinstance(value, list) and len(value) == 2}


def unneeded(index: dict[str, Any]) -> dict[str, Any]:
    """Parts that neither classify nor generate, such as the safety checker, as arguments that leave them out."""
    family = PIPELINES[index["_class_name"]]
    found: dict[str, Any] = {name: None for name in listed_parts(index) if name not in family.models + family.others}
    return found | ({"requires_safety_checker": False} if "safety_checker" in found else {})


def check_files(folder: Path, index: dict[str, Any]) -> None:
    """Whether all parts are there, with weights that can be read without unpickling."""
    family = PIPELINES[index["_class_name"]]
    parts = [name for name, library in listed_parts(index).items() if library and (folder / name).is_dir()]
    check_parts(str(folder), family, parts)
    for file in sorted(folder.glob("*/*config.json")):
        if file.parent.name in (*family.models[:1], "vae", "scheduler"):
            check_sizes(read_json(file), file)
    for part in family.models:
        if not any((folder / part).glob("*.safetensors")):
            pickled = ", ".join(path.name for path in sorted((folder / part).glob("*.bin")))
            came = f"only pickled weights ({pickled}), which could run code when read" if pickled else "no weights"
            raise ValueError(
                f"{folder / part} holds {came}; fetch the safetensors files, or write them with "
                "pipeline.save_pretrained where the pickled ones are trusted"
            )


def unsupported(name: object) -> str:
    return f"{name} is of no supported family; supported: {', '.join(PIPELINES)}"

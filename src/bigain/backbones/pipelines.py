"""Denoisers from diffusers pipelines: Stable Diffusion 1.x and 2.x, SDXL, DiT, PixArt."""

import difflib
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import diffusers
import huggingface_hub
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from bigain.backbones.configs import check_sizes, read_json
from bigain.backbones.denoiser import Condition, Denoiser, Frame
from bigain.backbones.schedule import Schedule
from bigain.backbones.site import native_size

INDEX = "model_index.json"
PROMPTS_AT_ONCE = 32


class PipelineDenoiser(Denoiser):
    """The parts of a pipeline that classification and generation need; `sampler` is its usual scheduler."""

    network: Any
    models: ClassVar[tuple[str, ...]]  # parts with weights; the first is the network
    others: ClassVar[tuple[str, ...]] = ("scheduler", "tokenizer")
    sampler: ClassVar[str] = "euler"
    guidance: ClassVar[float] = 7.5

    def __init__(self, pipeline: Any) -> None:
        name = type(pipeline).__name__
        check_parts(name, type(self), [part for part, value in pipeline.components.items() if value is not None])
        network, self.pipeline, self.vae = getattr(pipeline, self.models[0]), pipeline, pipeline.vae
        height, width = native_size(network)
        if height != width:
            raise ValueError(f"{name} is made for latents of {height}x{width}; only square ones are supported")
        self.factor = 2 ** (len(self.vae.config.block_out_channels) - 1)
        config = {**pipeline.scheduler.config, "_class_name": type(pipeline.scheduler).__name__}
        super().__init__(
            network, Schedule.from_config(config), Frame(height * self.factor, self.vae.config.in_channels)
        )

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        side = self.frame.size // self.factor
        return self.vae.config.latent_channels, side, side

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        with full_precision(self.vae):
            found = self.vae.encode(images.float().to(self.device)).latent_dist.mean
        return (found - self._shift) * self.vae.config.scaling_factor

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        scaled = latents.float().to(self.device) / self.vae.config.scaling_factor + self._shift
        with full_precision(self.vae):
            return self.vae.decode(scaled).sample.clamp(-1, 1)

    @property
    def _shift(self) -> float:
        return self.vae.config.get("shift_factor") or 0.0

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return self.network(noisy, timestep=t, **condition.values).sample


@contextmanager
def full_precision(vae: Any) -> Iterator[None]:
    """The VAE in float32 for a moment: in half precision SDXL's overflows, and all of them round."""
    dtype = vae.dtype
    nn.Module.to(vae, torch.float32)  # diffusers' own `to` warns, each time
    try:
        yield
    finally:
        nn.Module.to(vae, dtype)


class TextDenoiser(PipelineDenoiser):
    """Stable Diffusion 1.x and 2.x: classes are prompts."""

    by_text = True

    models: ClassVar[tuple[str, ...]] = ("unet", "vae", "text_encoder")

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        prompts = [name for name in classes if isinstance(name, str)]
        if len(prompts) < len(classes) or not prompts:
            came = next((repr(name) for name in classes if not isinstance(name, str)), "none")
            raise TypeError(f"{type(self.pipeline).__name__} is conditioned on text; classes are prompts, got {came}")
        found = self._embed(prompts[:PROMPTS_AT_ONCE])
        for start in range(PROMPTS_AT_ONCE, len(prompts), PROMPTS_AT_ONCE):
            found = found.join(self._embed(prompts[start : start + PROMPTS_AT_ONCE]))
        return found

    def unconditional(self, rows: int) -> Condition:
        return self._embed([""]).take(torch.zeros(rows, dtype=torch.int64, device=self.device))

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, _ = self.pipeline.encode_prompt(prompts, self.device, 1, False)
        return Condition({"encoder_hidden_states": found})


class SDXLDenoiser(TextDenoiser):
    """SDXL: two text encoders, their pooled text, and the picture's size as conditions."""

    models = ("unet", "vae", "text_encoder", "text_encoder_2")
    others = ("scheduler", "tokenizer", "tokenizer_2")

    def unconditional(self, rows: int) -> Condition:
        found = super().unconditional(rows)
        if not self.pipeline.config.force_zeros_for_empty_prompt:
            return found
        text, added = found.values["encoder_hidden_states"], found.values["added_cond_kwargs"]
        added = added | {"text_embeds": torch.zeros_like(added["text_embeds"])}
        return Condition({"encoder_hidden_states": torch.zeros_like(text), "added_cond_kwargs": added})

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, _, pooled, _ = self.pipeline.encode_prompt(
            prompts, device=self.device, num_images_per_prompt=1, do_classifier_free_guidance=False
        )
        side = self.frame.size
        sizes = torch.tensor([[side, side, 0, 0, side, side]] * len(prompts), dtype=found.dtype, device=self.device)
        added = {"text_embeds": pooled, "time_ids": sizes}
        return Condition({"encoder_hidden_states": found, "added_cond_kwargs": added})


class PixArtDenoiser(TextDenoiser):
    """PixArt: T5 text with its mask, and the picture's size where the network was trained with it."""

    models = ("transformer", "vae", "text_encoder")
    sampler = "dpm++"
    guidance = 4.5

    @torch.no_grad()
    def _embed(self, prompts: list[str]) -> Condition:
        found, mask, _, _ = self.pipeline.encode_prompt(prompts, do_classifier_free_guidance=False, device=self.device)
        added: dict[str, Tensor | None] = {"resolution": None, "aspect_ratio": None}
        if self.network.use_additional_conditions:
            ratio = torch.ones(len(prompts), 1, dtype=found.dtype, device=self.device)
            added = {"resolution": (ratio * self.frame.size).repeat(1, 2), "aspect_ratio": ratio}
        return Condition({"encoder_hidden_states": found, "encoder_attention_mask": mask, "added_cond_kwargs": added})


class DiTDenoiser(PipelineDenoiser):
    """DiT: classes are ImageNet names or label numbers."""

    models = ("transformer", "vae")
    others = ("scheduler",)
    sampler = "ddim"
    guidance = 4.0

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        labels = torch.tensor([self.class_key(name) for name in classes], dtype=torch.int64, device=self.device)
        return Condition({"class_labels": labels})

    def unconditional(self, rows: int) -> Condition:
        return Condition({"class_labels": torch.full((rows,), self._count, device=self.device)})

    @property
    def _count(self) -> int:
        return int(self.network.config.num_embeds_ada_norm)

    def class_key(self, name: str | int) -> int:
        names = self.pipeline.labels
        if isinstance(name, str):
            if name not in names:
                near = ", ".join(map(repr, difflib.get_close_matches(name, names, 3)))
                hint = f"did you mean {near}? There are" if near else "there are"
                raise ValueError(f"no class {name!r}; {hint} {len(names)} names and the numbers 0..{self._count - 1}")
            return int(names[name])
        if isinstance(name, bool) or not 0 <= name < self._count:
            raise ValueError(f"no class number {name}; this model has 0..{self._count - 1}")
        return name


PIPELINES: dict[str, type[PipelineDenoiser]] = {
    "StableDiffusionPipeline": TextDenoiser,
    "StableDiffusionXLPipeline": SDXLDenoiser,
    "DiTPipeline": DiTDenoiser,
    "PixArtAlphaPipeline": PixArtDenoiser,
    "PixArtSigmaPipeline": PixArtDenoiser,
}


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


def check_parts(name: str, family: type[PipelineDenoiser], parts: Collection[str]) -> None:
    missing = [part for part in family.models + family.others if part not in parts]
    if missing:
        needed = ", ".join(family.models + family.others)
        raise ValueError(f"{name} has no {', '.join(missing)}; to classify or generate it needs {needed}")


def unsupported(name: object) -> str:
    return f"{name} is of no supported family; supported: {', '.join(PIPELINES)}"

"""Bundled class-conditional models: a plain diffusers model and, where it reads text, learned prompts."""

import copy
import json
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import diffusers
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bigain.checks import check_count, whole
from bigain.denoisers.base import Condition, Denoiser, ImageSpec
from bigain.denoisers.codec import PixelCodec
from bigain.denoisers.schedule import FLOW_SCHEDULER, Schedule
from bigain.models.configs import LARGEST, check_sizes, read_json
from bigain.profile import TimestepProfile
from bigain.registry import miss

MODEL_CLASSES: dict[str, tuple[str, str | None]] = {  # the diffusers class, and its argument for the width of text
    "dit": ("DiTTransformer2DModel", None),
    "unet": ("UNet2DConditionModel", "cross_attention_dim"),
    "mmdit": ("SD3Transformer2DModel", "joint_attention_dim"),
}


class LabelledModel(nn.Module):
    """A diffusers model that predicts noise or velocity from (noisy latents, t, label); the last label means none."""

    def __init__(self, model: nn.Module, classes: int, prompts: Tensor | None = None) -> None:
        super().__init__()
        self.model = model
        self.classes = classes
        self.prompts = None if prompts is None else nn.Parameter(prompts)

    def forward(self, noisy: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        """(B, C, H, W), (B,), (B,) -> (B, C, H, W)."""
        return self.model(noisy, timestep=t, **self.arguments(labels)).sample

    def arguments(self, labels: Tensor) -> dict[str, Tensor]:
        """Arguments of the diffusers model for labels: (B,) -> arguments."""
        if self.prompts is None:
            return {"class_labels": labels}
        text = self.prompts[labels]
        pooled = {"pooled_projections": text.mean(1)} if takes_pooled(self.model) else {}
        return {"encoder_hidden_states": text, **pooled}


def takes_pooled(model: Any) -> bool:
    """Whether a model reads a summary of the text beside its tokens, as SD3 does."""
    return "pooled_projection_dim" in model.config


def build_labelled(family: str, architecture: dict[str, Any], classes: int, prompt_tokens: int = 0) -> LabelledModel:
    """A freshly initialised model of the family, from torch's global generator.

    It is in evaluation mode, also for training: in training mode diffusers' DiT drops labels on its own, in each
    block separately.
    """
    if family not in MODEL_CLASSES:
        raise ValueError(miss("family", family, MODEL_CLASSES))
    model_class, text_width = MODEL_CLASSES[family]
    model = getattr(diffusers, model_class)(**architecture)
    if text_width is None:
        return LabelledModel(model, classes).eval()
    prompts = 0.5 * torch.randn(classes + 1, prompt_tokens, architecture[text_width])
    return LabelledModel(model, classes, prompts).eval()


class LabelledDenoiser(Denoiser):
    """A bundled model: class labels by name or number, pixels as latents."""

    def __init__(
        self,
        labelled: LabelledModel,
        schedule: Schedule,
        image_spec: ImageSpec,
        classes: Sequence[str],
        stride: int = 2,
    ) -> None:
        super().__init__(labelled.model, schedule, image_spec)
        self.labelled = labelled
        self.classes = tuple(classes)
        self.codec = PixelCodec(image_spec.channels, stride)
        if schedule.prediction_type == "flow":
            self.default_scheduler = FLOW_SCHEDULER

    def encode(self, images: Tensor) -> Tensor:
        return self.codec.encode(images.float().to(self.device)).latent_dist.mode()

    def decode(self, latents: Tensor) -> Tensor:
        return self.codec.decode(latents.float()).sample.clamp(-1, 1)

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        numbers = [self.class_key(name) for name in classes]
        return self._condition(torch.tensor(numbers, dtype=torch.int64, device=self.device))

    def unconditional(self, rows: int) -> Condition:
        return self._condition(torch.full((rows,), len(self.classes), device=self.device))

    def _condition(self, labels: Tensor) -> Condition:
        return Condition(self.labelled.arguments(labels))

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        side = (self.image_spec.size + 2 * self.image_spec.padding) // self.codec.stride
        return self.codec.config.latent_channels, side, side

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return self.network(noisy, timestep=t, **condition.values).sample

    def class_key(self, name: str | int) -> int:
        if isinstance(name, Integral) and not isinstance(name, bool):
            if not 0 <= name < len(self.classes):
                raise ValueError(f"no class number {name}; this model has 0..{len(self.classes) - 1}")
            return int(name)
        if name not in self.classes:
            raise ValueError(miss("class", name, self.classes))
        return self.classes.index(name)


CONFIG = "bigain.json"
PROMPTS = "prompts.safetensors"
PROFILE = "profile.json"


def save_labelled(folder: Path, denoiser: LabelledDenoiser, family: str) -> None:
    """Write float16 weights and JSON: `model/` is a plain diffusers model, the rest is our own format."""
    folder.mkdir(parents=True, exist_ok=True)
    half: Any = copy.deepcopy(denoiser.labelled.model)
    nn.Module.half(half)  # diffusers' own warns of modules to keep in float32, of which there are none
    half.save_pretrained(folder / "model")
    if denoiser.labelled.prompts is not None:
        save_file({"prompts": denoiser.labelled.prompts.detach().half().contiguous()}, folder / PROMPTS)
    config = {
        "family": family,
        "classes": list(denoiser.classes),
        "image_spec": denoiser.image_spec._asdict(),
        "schedule": vars(denoiser.schedule),
        "stride": denoiser.codec.stride,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
    if denoiser.profile is not None:
        denoiser.profile.save(folder / PROFILE)


def check_image_spec(image_spec: ImageSpec, stride: object) -> None:
    """Sizes of images, in pixels."""
    check_count("image_spec.size", image_spec.size, LARGEST["sample_size"])
    check_count("stride", stride, image_spec.size)
    if image_spec.channels not in (1, 3):
        raise ValueError(f"image_spec.channels must be 1 or 3, got {image_spec.channels!r}")
    if not 0 <= (-1 if whole(image_spec.padding) is None else image_spec.padding) <= image_spec.size:
        raise ValueError(f"image_spec.padding must be an int from 0 to {image_spec.size}, got {image_spec.padding!r}")


def load_labelled(folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> LabelledDenoiser:
    """Load a bundled model from its folder: safetensors and JSON only, nothing is unpickled or downloaded."""
    if (folder / "model" / "config.json").is_file():
        check_sizes(read_json(folder / "model" / "config.json"), folder / "model" / "config.json")
    try:
        config = read_json(folder / CONFIG)
        model_class = getattr(diffusers, MODEL_CLASSES[config["family"]][0])
        model = model_class.from_pretrained(folder / "model", torch_dtype=dtype, local_files_only=True)
        prompts = load_file(folder / PROMPTS)["prompts"].to(dtype) if (folder / PROMPTS).is_file() else None
        classes, image_spec, schedule = (
            config["classes"],
            ImageSpec(**config["image_spec"]),
            Schedule(**config["schedule"]),
        )
        check_image_spec(image_spec, config["stride"])
        profile = TimestepProfile.load(folder / PROFILE) if (folder / PROFILE).is_file() else None
    except (KeyError, TypeError, ValueError, OSError, RuntimeError) as error:
        raise ValueError(f"{folder} is not a complete bigain model ({error}); download or train it again") from error
    labelled = LabelledModel(model, len(classes), prompts).to(device).eval().requires_grad_(False)
    denoiser = LabelledDenoiser(labelled, schedule, image_spec, classes, config["stride"])
    denoiser.profile = profile
    return denoiser

"""What classification and generation need from a model, and the parts that all families share."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bigain.defaults import TEXT_TOKENS
from bigain.denoisers.schedule import Schedule
from bigain.profile import TimestepProfile

Loss = Literal["l2", "l1", "huber"]
LOSSES: dict[str, Callable[..., Tensor]] = {"l2": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss}


class ImageSpec(NamedTuple):
    """Preprocessing: resize the short side and centre-crop to `size`, then pad with `padding` black pixels."""

    size: int
    channels: int = 3
    padding: int = 0


class Condition(NamedTuple):
    """Arguments of the network for each of K classes, stacked: every value is (K, ...)."""

    values: dict[str, Any]

    def take(self, rows: Tensor) -> "Condition":
        """(K, ...) -> (B, ...)."""
        return Condition({key: pick(value, rows) for key, value in self.values.items()})

    def join(self, other: "Condition") -> "Condition":
        """(A, ...), (B, ...) -> (A + B, ...)."""
        return Condition({key: stack(value, other.values[key]) for key, value in self.values.items()})


def pick(value: Any, rows: Tensor) -> Any:
    if isinstance(value, dict):
        return {key: pick(part, rows) for key, part in value.items()}
    return value.index_select(0, rows) if isinstance(value, Tensor) else value


def stack(a: Any, b: Any) -> Any:
    """Prompts and masks of different lengths are padded with zeros: where lengths differ, masks say what is text."""
    if isinstance(a, dict):
        return {key: stack(part, b[key]) for key, part in a.items()}
    if not isinstance(a, Tensor):
        return a
    if a.ndim < 2 or a.shape[1] == b.shape[1]:
        return torch.cat([a, b])
    length = max(a.shape[1], b.shape[1])
    return torch.cat([padded(part, length) for part in (a, b)])


def padded(text: Tensor, length: int) -> Tensor:
    """(B, L, ...) -> (B, length, ...)."""
    return F.pad(text, [0, 0] * (text.ndim - 2) + [0, length - text.shape[1]])


class Denoiser(ABC):
    """A noise predictor with its VAE and its conditions. `bigain.compress` acts on its `network`."""

    default_scheduler: str = "ddim"  # scheduler and guidance of the paper's experiments
    guidance_scale: float = 4.0
    by_text: ClassVar[bool] = False  # whether classes are prompts
    profile: TimestepProfile | None = None  # timesteps and weights that were fitted for this model
    mu: float | None = None  # shift of a flow's noise levels that depends on the image size

    def __init__(self, network: nn.Module, schedule: Schedule, image_spec: ImageSpec) -> None:
        self.network = network
        self.schedule = schedule
        self.image_spec = image_spec

    def class_key(self, name: str | int) -> str | int:
        """A key that is equal for two names of one class, such as a name and its number."""
        return name

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    @property
    def text_tokens(self) -> int:
        """The length of a prompt in tokens."""
        text = self.unconditional(1).values.get("encoder_hidden_states")
        return TEXT_TOKENS if text is None else int(text.shape[1])

    def rows_at_once(self) -> int:
        """A batch size that suits the device: on a CPU 32 for latents of 16 x 16, 8 for 64 x 64, more on a GPU.

        On a CPU twice as many are slower, compressed or not: what a layer writes must still be in the cache when the
        next one reads it, and larger tensors come from the system anew each time.
        """
        share = 8_192 if self.device.type == "cpu" else 262_144
        return max(8, min(512, share // math.prod(self.latent_shape[1:])))

    @abstractmethod
    def encode(self, images: Tensor) -> Tensor:
        """Latents of images in [-1, 1], float32: (B, c, s, s) -> (B, C, H, W)."""

    @abstractmethod
    def decode(self, latents: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, c, s, s) in [-1, 1]."""

    @abstractmethod
    def conditions(self, classes: Sequence[str | int]) -> Condition:
        """Conditions of K classes: names, prompts or label numbers."""

    @abstractmethod
    def unconditional(self, rows: int) -> Condition:
        """The empty condition of classifier-free guidance, for `rows` rows."""

    @property
    @abstractmethod
    def latent_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image's latents."""

    @abstractmethod
    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        """The network's raw output: (B, C, H, W), (B,), B rows -> (B, C, H, W)."""

    def noise(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        """The predicted noise in float32, for any prediction type."""
        return self.schedule.noise_from(self._means(noisy, t, condition), noisy, t)

    def prediction(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        """What a scheduler takes, in float32: noise, or the velocity of a flow, which noise does not give at t = T."""
        means = self._means(noisy, t, condition)
        return means.float() if self.schedule.prediction_type == "flow" else self.schedule.noise_from(means, noisy, t)

    def _means(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        """The network's output without the learned variance that some have."""
        return self.output(noisy.to(self.dtype), t, condition)[:, : noisy.shape[1]]

    def set_timesteps(self, scheduler: Any, num_inference_steps: int) -> None:
        """Set the timesteps of a scheduler as the model's pipeline does."""
        scheduler.set_timesteps(num_inference_steps, device=self.device)

    def guided(self, condition: Condition, scale: float) -> tuple[Condition, float]:
        """The condition and scale of classifier-free guidance; networks that take the scale as input leave 1 of it."""
        return condition, scale

    def guide(self, conditional: Tensor, unconditional: Tensor, scale: float) -> Tensor:
        """Classifier-free guidance: (B, C, H, W), (B, C, H, W) -> (B, C, H, W)."""
        return unconditional + scale * (conditional - unconditional)

    @torch.no_grad()
    def error(self, latents: Tensor, condition: Condition, t: Tensor, noise: Tensor, loss: Loss = "l2") -> Tensor:
        """Mean error of the predicted noise, in float32: (B, C, H, W), B rows, (B,), (B, C, H, W) -> (B,)."""
        residual = self.residual(latents, condition, t, noise)
        return LOSSES[loss](residual, torch.zeros_like(residual), reduction="none").flatten(1).mean(1)

    @torch.no_grad()
    def residual(self, latents: Tensor, condition: Condition, t: Tensor, noise: Tensor) -> Tensor:
        """The predicted noise less the true one, in float32: as for `error` -> (B, C, H, W)."""
        noisy = self.schedule.add_noise(latents, noise, t)
        return self.noise(noisy, t, condition) - noise.float()


def share_weights(denoiser: Denoiser | Any) -> Denoiser:
    """A second denoiser with the same weights, not a copy of them, that can be compressed on its own."""
    from bigain.models.architectures import share_weights as share_network  # needs diffusers

    other = copy.copy(as_denoiser(denoiser))
    other.network = share_network(other.network)
    return other


def as_denoiser(given: Any) -> Denoiser:
    """A denoiser as it is, or made from a diffusers pipeline."""
    if isinstance(given, Denoiser):
        return given
    if hasattr(given, "components") and hasattr(given, "scheduler"):
        from bigain.denoisers.pipelines import from_pipeline  # needs diffusers

        return from_pipeline(given)
    if isinstance(given, str | Path):
        raise TypeError(f"denoiser must be a loaded model, got {str(given)!r}; call bigain.load({str(given)!r}) first")
    raise TypeError(
        f"denoiser must come from bigain.load or be a diffusers pipeline, got {type(given).__name__}; "
        "a network alone has no classes and no noise schedule"
    )

"""Noise schedules: adding noise to images, and reading noise from a network's output."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bigain.defaults import NUM_TRAIN_TIMESTEPS
from bigain.models.configs import check_sizes
from bigain.registry import miss

BETAS = ("linear", "scaled_linear", "squaredcos_cap_v2")
FLOW_SCHEDULER = "flow-euler"  # the usual scheduler of flow models
PREDICTIONS = ("epsilon", "v_prediction", "sample", "flow")


@dataclass(frozen=True)
class Schedule:
    """x_t = signal(t) · x_0 + noise(t) · eps; `prediction_type` is what the network's output means.

    `beta_schedule` "flow" is rectified flow, x_t = (1 − t/T) x_0 + (t/T) eps, whose networks predict eps − x_0.
    `settings` is the configuration of the diffusers scheduler it was read from, for other schedulers to inherit.
    """

    beta_schedule: str = "linear"
    beta_start: float = 1e-4
    beta_end: float = 0.02
    prediction_type: str = "epsilon"
    num_train_timesteps: int = NUM_TRAIN_TIMESTEPS
    settings: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_sizes({"num_train_timesteps": self.num_train_timesteps}, "the noise schedule")
        if self.beta_schedule not in (*BETAS, "flow"):
            raise ValueError(miss("beta schedule", self.beta_schedule, (*BETAS, "flow")))
        if self.prediction_type not in PREDICTIONS:
            raise ValueError(miss("prediction type", self.prediction_type, PREDICTIONS))
        if (self.prediction_type == "flow") != (self.beta_schedule == "flow"):
            raise ValueError('beta_schedule and prediction_type must both be "flow", or neither')

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Schedule":
        """From the configuration of a diffusers scheduler."""
        name, steps = config.get("_class_name", "the scheduler"), config.get("num_train_timesteps", NUM_TRAIN_TIMESTEPS)
        if "FlowMatch" in name or config.get("prediction_type") == "flow_prediction":
            return cls("flow", prediction_type="flow", num_train_timesteps=steps, settings=config)
        if config.get("trained_betas") is not None or config.get("rescale_betas_zero_snr"):
            raise ValueError(f"{name} has trained_betas or rescale_betas_zero_snr, which are not supported")
        if "beta_schedule" not in config:
            raise ValueError(f"{name} has no beta_schedule. Supported: {', '.join(BETAS)}, and FlowMatch schedulers")
        prediction = config.get("prediction_type", "epsilon")
        return cls(config["beta_schedule"], config["beta_start"], config["beta_end"], prediction, steps, config)

    @functools.cache  # noqa: B019 - schedules are few and small
    def levels(self) -> tuple[Tensor, Tensor]:
        """Factors of the image and of the noise at each t, in float32: (T,), (T,)."""
        if self.beta_schedule == "flow":
            share = torch.arange(self.num_train_timesteps, dtype=torch.float32) / self.num_train_timesteps
            return 1 - share, share
        signal = torch.cumprod(1 - self._betas(), 0)
        return signal.sqrt().float(), (1 - signal).sqrt().float()

    def _betas(self) -> Tensor:
        steps = self.num_train_timesteps
        if self.beta_schedule == "linear":
            return torch.linspace(self.beta_start, self.beta_end, steps, dtype=torch.float64)
        if self.beta_schedule == "scaled_linear":
            return torch.linspace(self.beta_start**0.5, self.beta_end**0.5, steps, dtype=torch.float64) ** 2
        edges = (torch.arange(steps + 1, dtype=torch.float64) / steps + 0.008) / 1.008
        bar = torch.cos(edges * torch.pi / 2) ** 2
        return (1 - bar[1:] / bar[:-1]).clamp_max(0.999)

    def add_noise(self, latents: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """x_t in float32: (B, ...), (B, ...), (B,) -> (B, ...)."""
        signal, spread = self._at(t, latents)
        return signal * latents.float() + spread * noise.float()

    def target(self, latents: Tensor, noise: Tensor) -> Tensor:
        """What a network learns to predict: the noise, or the velocity of a flow: (B, ...), (B, ...) -> (B, ...)."""
        if self.prediction_type not in ("epsilon", "flow"):
            raise ValueError(f"training needs prediction_type epsilon or flow, got {self.prediction_type!r}")
        return noise - latents if self.prediction_type == "flow" else noise

    def noise_from(self, output: Tensor, noisy: Tensor, t: Tensor) -> Tensor:
        """The noise implied by a network's output, in float32: (B, ...) -> (B, ...)."""
        output, noisy = output.float(), noisy.float()
        signal, spread = self._at(t, output)
        if self.prediction_type == "v_prediction":
            return signal * output + spread * noisy
        if self.prediction_type == "sample":
            return (noisy - signal * output) / spread
        if self.prediction_type == "flow":
            return noisy + signal * output
        return output

    def clean_from(self, prediction: Tensor, noisy: Tensor, t: Tensor) -> Tensor:
        """The image implied by predicted noise, or by the velocity of a flow, in float32: (B, ...) -> (B, ...)."""
        prediction, noisy = prediction.float(), noisy.float()
        signal, spread = self._at(t, noisy)
        return noisy - spread * prediction if self.prediction_type == "flow" else (noisy - spread * prediction) / signal

    def _at(self, t: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        shape = (-1, *[1] * (like.ndim - 1))
        signal, spread = (level.to(like.device) for level in self.levels())
        if self.beta_schedule == "flow":
            signal, spread = 1 - t.float() / self.num_train_timesteps, t.float() / self.num_train_timesteps
        elif t.is_floating_point():
            signal, spread = between(spread / signal, t)
        else:
            signal, spread = signal[t], spread[t]
        return signal.view(shape), spread.view(shape)


def between(sigmas: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Signal and noise at fractional timesteps, by linear noise-to-signal ratio, as in diffusers' schedulers."""
    low = t.long()
    sigma = torch.lerp(sigmas[low], sigmas[(low + 1).clamp_max(len(sigmas) - 1)], t.float() - low)
    signal = (1 + sigma**2).rsqrt()
    return signal, sigma * signal

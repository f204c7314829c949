"""What the transformers with joint attention share: flow matching, shifted noise levels and packed latents."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from diffusers import FlowMatchEulerDiscreteScheduler
from torch import Tensor
from torch.nn import functional as F

from bigain.denoisers.base import Condition
from bigain.denoisers.schedule import FLOW_SCHEDULER
from bigain.denoisers.stable_diffusion import TextDenoiser


class FlowDenoiser(TextDenoiser):
    """A transformer that attends to prompt and image jointly and predicts velocities; classes are prompts."""

    default_scheduler = FLOW_SCHEDULER
    prompt_tokens: ClassVar[int] = 512  # the longest prompt, as in the pipeline
    even_levels: ClassVar[bool] = False  # whether the pipeline spaces noise levels from 1 to 1 / n itself

    def __init__(self, pipeline: Any, image_size: int | None = None) -> None:
        super().__init__(pipeline, image_size)
        if self.schedule.prediction_type != "flow":
            raise ValueError(
                f"{type(pipeline).__name__} needs a flow-matching scheduler such as FlowMatchEulerDiscreteScheduler, "
                f"got {type(pipeline.scheduler).__name__}; load the pipeline's own again"
            )
        settings = self.schedule.settings or {}
        self.mu = dynamic_shift(settings, self.image_tokens) if settings.get("use_dynamic_shifting") else None

    @property
    def image_tokens(self) -> int:
        return (self.image_spec.size // (self.factor * self.patch)) ** 2

    def rows_at_once(self) -> int:
        """A batch size that suits the device: 14 on a GPU for FLUX.1 at 1024 pixels, 42 at 512, 1 on a CPU.

        Every layer computes the tokens of the prompt, too, and a token is as much work as 4 latents elsewhere.
        """
        share = 8_192 if self.device.type == "cpu" else 262_144
        return max(1, min(512, share // (4 * (self.image_tokens + self.prompt_tokens))))

    def set_timesteps(self, scheduler: Any, num_inference_steps: int) -> None:
        options: dict[str, Any] = {}
        if isinstance(scheduler, FlowMatchEulerDiscreteScheduler):
            if scheduler.config.shift_terminal and num_inference_steps < 2:
                raise ValueError(
                    f"num_inference_steps must be at least 2 for this {type(self.pipeline).__name__}, got "
                    f"{num_inference_steps}: its scheduler stretches the noise levels to shift_terminal"
                )
            options["mu"] = self.mu
            if self.even_levels:
                options["sigmas"] = np.linspace(1.0, 1 / num_inference_steps, num_inference_steps)
        scheduler.set_timesteps(num_inference_steps, device=self.device, **options)


class PackedDenoiser(FlowDenoiser):
    """A transformer that is given tokens, each 2 x 2 latents, and timesteps from 0 to 1."""

    even_levels = True

    @property
    def factor(self) -> int:
        return self.pipeline.vae_scale_factor

    @property
    def patch(self) -> int:
        return 2

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        arguments = self._arguments(noisy.shape[2] // 2, noisy.shape[3] // 2, condition.values)
        return unpack(self.network(pack(noisy), timestep=t / 1000, **arguments).sample, *noisy.shape[2:])

    @abstractmethod
    def _arguments(self, height: int, width: int, values: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the network for images of height x width tokens."""

    def _native_side(self) -> int:
        """The network has positions for any size."""
        return self.pipeline.default_sample_size


def pack(latents: Tensor) -> Tensor:
    """(B, C, 2 H, 2 W) -> (B, H W, 4 C)."""
    return F.pixel_unshuffle(latents, 2).flatten(2).transpose(1, 2)


def unpack(tokens: Tensor, height: int, width: int) -> Tensor:
    """(B, H W, 4 C), 2 H, 2 W -> (B, C, 2 H, 2 W)."""
    return F.pixel_shuffle(tokens.transpose(1, 2).unflatten(2, (height // 2, width // 2)), 2)


def dynamic_shift(settings: Mapping[str, Any], tokens: int) -> float:
    """The shift mu of noise levels, linear in the number of image tokens; the defaults are those of diffusers."""
    fewest, most = settings.get("base_image_seq_len", 256), settings.get("max_image_seq_len", 4096)
    low, high = settings.get("base_shift", 0.5), settings.get("max_shift", 1.15)
    return low + (high - low) * (tokens - fewest) / (most - fewest)

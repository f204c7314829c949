"""The base class of denoisers made from diffusers pipelines."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bigain.denoisers.base import Condition, Denoiser, ImageSpec
from bigain.denoisers.schedule import Schedule
from bigain.models.site import native_size
from bigain.registry import Registry

PIPELINES: Registry[type["PipelineDenoiser"]] = Registry("pipeline")  # by the name of the pipeline's class


class PipelineDenoiser(Denoiser):
    """The parts of a pipeline that classification and generation need; `default_scheduler` is its usual scheduler."""

    network: Any
    models: ClassVar[tuple[str, ...]]  # parts with weights; the first is the network
    others: ClassVar[tuple[str, ...]] = ("scheduler", "tokenizer")
    default_scheduler: ClassVar[str] = "euler"
    guidance_scale: ClassVar[float] = 7.5

    def __init__(self, pipeline: Any) -> None:
        name = type(pipeline).__name__
        check_parts(name, type(self), [part for part, value in pipeline.components.items() if value is not None])
        network, self.pipeline, self.vae = getattr(pipeline, self.models[0]), pipeline, pipeline.vae
        height, width = native_size(network)
        if height != width:
            raise ValueError(f"{name} has latents of {height}x{width}; only square latents are supported")
        self.factor = 2 ** (len(self.vae.config.block_out_channels) - 1)
        config = {**pipeline.scheduler.config, "_class_name": type(pipeline.scheduler).__name__}
        super().__init__(
            network, Schedule.from_config(config), ImageSpec(height * self.factor, self.vae.config.in_channels)
        )

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        side = self.image_spec.size // self.factor
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
    """Run the VAE in float32: in half precision SDXL's overflows, and all of them round."""
    dtype = vae.dtype
    nn.Module.to(vae, torch.float32)  # diffusers' own `to` warns, each time
    try:
        yield
    finally:
        nn.Module.to(vae, dtype)


def check_parts(name: str, family: type[PipelineDenoiser], parts: Collection[str]) -> None:
    missing = [part for part in family.models + family.others if part not in parts]
    if missing:
        needed = ", ".join(family.models + family.others)
        raise ValueError(f"{name} has no {', '.join(missing)}; to classify or generate it needs {needed}")

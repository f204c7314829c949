"""The base class of denoisers made from diffusers pipelines."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bigain.checks import check_count
from bigain.denoisers.base import Condition, Denoiser, ImageSpec
from bigain.denoisers.schedule import Schedule
from bigain.models.configs import LARGEST
from bigain.models.family import native_size
from bigain.registry import Registry

PIPELINES: Registry[type["PipelineDenoiser"]] = Registry("pipeline")  # by the name of the pipeline's class


class PipelineDenoiser(Denoiser):
    """The parts of a pipeline that classification and generation need; `default_scheduler` is its usual scheduler.

    `image_size` is the side of its square images in pixels; by default the pipeline's own.
    """

    network: Any
    models: ClassVar[tuple[str, ...]]  # parts with weights; the first is the network
    others: ClassVar[tuple[str, ...]] = ("scheduler", "tokenizer")
    optional_models: ClassVar[tuple[str, ...]] = ()  # parts that are used where the pipeline has them
    optional_others: ClassVar[tuple[str, ...]] = ()
    default_scheduler: str = "euler"
    guidance_scale: float = 7.5

    def __init__(self, pipeline: Any, image_size: int | None = None) -> None:
        name = type(pipeline).__name__
        check_parts(name, type(self), [part for part, value in pipeline.components.items() if value is not None])
        network, self.pipeline, self.vae = getattr(pipeline, self.models[0]), pipeline, pipeline.vae
        self.network = network
        config = {**pipeline.scheduler.config, "_class_name": type(pipeline.scheduler).__name__}
        size = self._native_side() * self.factor if image_size is None else self._check_size(image_size)
        super().__init__(network, Schedule.from_config(config), ImageSpec(size, self._channels[0]))

    @property
    def factor(self) -> int:
        """Pixels a latent is wide."""
        return 2 ** (len(self.vae.config.block_out_channels) - 1)

    @property
    def patch(self) -> int:
        """Latents a token is wide."""
        return self.network.config.get("patch_size") or 1

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        side = self.image_spec.size // self.factor
        return self._channels[1], side, side

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        with full_precision(self.vae):
            found = self._to_latents(images.float().to(self.device))
        return (found - self._shift) * self._scale

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        scaled = latents.float().to(self.device) / self._scale + self._shift
        with full_precision(self.vae):
            return self._to_images(scaled).clamp(-1, 1)

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return self.network(noisy, timestep=t, **condition.values).sample

    def _to_latents(self, images: Tensor) -> Tensor:
        return self.vae.encode(images).latent_dist.mean

    def _to_images(self, latents: Tensor) -> Tensor:
        return self.vae.decode(latents).sample

    @property
    def _channels(self) -> tuple[int, int]:
        """Channels of images and of latents."""
        return self.vae.config.in_channels, self.vae.config.latent_channels

    @property
    def _shift(self) -> float | Tensor:
        return self.vae.config.get("shift_factor") or 0.0

    @property
    def _scale(self) -> float | Tensor:
        return self.vae.config.scaling_factor

    def _native_side(self) -> int:
        """Side of the latents of the pipeline's own image size."""
        height, width = native_size(self.network)
        if height != width:
            name = type(self.pipeline).__name__
            raise ValueError(f"{name} has latents of {height}x{width}; only square latents are supported")
        return height

    def _check_size(self, image_size: int) -> int:
        """An image size that gives whole tokens, for all of which the network has positions."""
        name, step = type(self.pipeline).__name__, self.factor * self.patch
        size = check_count("image_size", image_size, self.factor * LARGEST["sample_size"])
        if size % step:
            near = max(step, round(size / step) * step)
            raise ValueError(f"image_size must be a multiple of {step} for this {name}, got {size}; use {near}")
        most = self.network.config.get("pos_embed_max_size")
        if most is not None and size > most * step:
            raise ValueError(
                f"image_size must be at most {most * step} for this {name}, got {size}: its transformer has a table of "
                f"{most}x{most} positions"
            )
        return size


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

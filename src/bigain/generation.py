"""Generate images from labels or prompts, each from its own seed."""

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from bigain.checks import check_count, check_seed, set_plain_ints
from bigain.denoisers.base import Condition, Denoiser, as_denoiser
from bigain.denoisers.sampling import make_scheduler
from bigain.models.caches import new_trajectory
from bigain.models.rows import RowGroups, same_input
from bigain.seeds import hashed


@dataclass(frozen=True)
class Sampling:
    """How to sample. `scheduler` is a diffusers scheduler by name; None means the model's usual one.

    `guidance_scale` is classifier-free guidance; FLUX.1-dev and other guidance-distilled networks take it as input.
    """

    num_inference_steps: int = 50
    guidance_scale: float | None = None
    scheduler: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        set_plain_ints(self, ("num_inference_steps", "seed"))
        check_seed(self.seed)
        if type(self.num_inference_steps) is not int or self.num_inference_steps < 1:
            raise ValueError(f"num_inference_steps must be an int of at least 1, got {self.num_inference_steps!r}")
        number = isinstance(self.guidance_scale, Real) and not isinstance(self.guidance_scale, bool)
        if self.guidance_scale is not None and not (number and 0 <= self.guidance_scale < math.inf):
            raise ValueError(
                f"guidance_scale must be a number of at least 0 (1 means no guidance), got {self.guidance_scale!r}"
            )


def image_generator(seed: int, number: int) -> torch.Generator:
    """The random generator of image `number`, whatever its batch."""
    return torch.Generator().manual_seed(hashed("generate", seed, number))


@torch.no_grad()
def generate(
    denoiser: Denoiser | Any,
    classes: Iterable[str | int],
    sampling: Sampling | None = None,
    *,
    first: int = 0,
    batch_size: int | None = None,
    progress: Callable[[Tensor], None] | None = None,
) -> Tensor:
    """Generate one image for each class or prompt: -> (n, c, s, s) in [-1, 1].

    `denoiser` comes from `bigain.load`, or is a diffusers pipeline.
    `first` is the number of the first image; seed and number decide an image.
    `batch_size` is the number of images per batch; by default it suits the model and its device.
    `progress` is called with each batch of images when it is done.
    """
    denoiser, sampling = as_denoiser(denoiser), sampling or Sampling()
    wanted = check_wanted(classes)
    together = usual_batch(denoiser) if batch_size is None else check_count("batch_size", batch_size)
    parts = []
    for start in range(0, len(wanted), together):
        chosen = wanted[start : start + together]
        numbers = range(first + start, first + start + len(chosen))
        generators = [image_generator(sampling.seed, number) for number in numbers]
        noise = torch.stack([torch.randn(denoiser.latent_shape, generator=generator) for generator in generators])
        latents = sample(denoiser, noise, denoiser.conditions(chosen), sampling, generators, first=first + start)
        parts.append(denoiser.decode(latents).cpu())
        check_finite(parts[-1], first + start, lambda: "when it was decoded")
        if progress is not None:
            progress(parts[-1])
    return torch.cat(parts)


def usual_batch(denoiser: Denoiser) -> int:
    """How many images are generated at once by default; guidance doubles the rows."""
    return max(1, denoiser.rows_at_once() // 2)


def check_wanted(classes: Any) -> list[str | int]:
    """The classes or prompts as a list; a single string would be split into letters."""
    if isinstance(classes, str | int) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list with one element per image, got {classes!r}; use [{classes!r}]")
    found = list(classes)
    if not found:
        raise ValueError("classes must have at least one element, got an empty list")
    return found


def sample(
    denoiser: Denoiser,
    noise: Tensor,
    condition: Condition,
    sampling: Sampling,
    generators: list[torch.Generator] | None = None,
    *,
    first: int = 0,
) -> Tensor:
    """Denoise images numbered from `first`: (B, C, H, W) -> (B, C, H, W).

    With guidance, the network's batch is [conditional, unconditional]. Schedulers that add noise draw it from each
    image's generator. What a stochastic operator draws depends on the seed, the image number and the step.
    """
    scheduler = make_scheduler(sampling.scheduler or denoiser.default_scheduler, denoiser.schedule, denoiser.mu)
    denoiser.set_timesteps(scheduler, sampling.num_inference_steps)
    wanted = denoiser.guidance_scale if sampling.guidance_scale is None else sampling.guidance_scale
    condition, guidance = denoiser.guided(condition, wanted)
    latents = noise.to(denoiser.device) * getattr(scheduler, "init_noise_sigma", 1.0)  # flow schedulers scale nothing
    scaled = getattr(scheduler, "scale_model_input", lambda latents, t: latents)
    halves = 1 if guidance == 1 else 2
    both = condition if guidance == 1 else condition.join(denoiser.unconditional(len(noise)))
    extra = {"generator": generators} if "generator" in inspect.signature(scheduler.step).parameters else {}
    rows = torch.arange(len(noise), device=denoiser.device)
    new_trajectory(denoiser.network)
    members = torch.arange(halves, device=denoiser.device).repeat_interleave(len(noise))
    for step, t in enumerate(scheduler.timesteps):
        noisy = scaled(latents, t)
        keys = [hashed("generate", sampling.seed, first + i, step) for i in range(len(noise))]
        drawn = torch.tensor(keys, device=denoiser.device)
        with same_input(RowGroups(rows.repeat(halves), len(noisy), keys=drawn, members=members)):
            found = denoiser.prediction(noisy.repeat(halves, 1, 1, 1), t.expand(halves * len(noisy)), both)
        if guidance != 1:
            with_label, without = found.chunk(2)
            found = denoiser.guide(with_label, without, guidance)
        latents = scheduler.step(found, t, latents, **extra).prev_sample
        check_finite(
            latents, first, partial("at step {} of {}, t = {:g}".format, step + 1, len(scheduler.timesteps), t)
        )
    return latents


def check_finite(images: Tensor, first: int, when: Callable[[], str]) -> None:
    """Raise for NaN: it would be saved as a black image and pass for a result."""
    finite = torch.isfinite(images).flatten(1).all(1)
    if finite.all():
        return
    broken = (~finite).nonzero().flatten().tolist()
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    raise FloatingPointError(
        f"image {first + broken[0]}{more} became NaN or infinite {when()}; try dtype float32 or bfloat16, another "
        "scheduler or a lower guidance_scale, or check the weights"
    )

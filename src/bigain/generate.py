"""Images from labels or prompts, each from its own seed."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bigain.backbones.denoiser import Condition, Denoiser
from bigain.backbones.sampling import make_scheduler


@dataclass(frozen=True)
class Sampling:
    """How to sample: any diffusers scheduler by name."""

    steps: int = 50
    guidance: float = 4.0
    scheduler: str = "ddim"
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.steps) is not int or self.steps < 1:
            raise ValueError(f"steps is an int from 1; got {self.steps!r}")
        if not self.guidance >= 0:
            raise ValueError(f"guidance is a number from 0 (1 means none); got {self.guidance!r}")


def start_noise(seed: int, number: int, shape: Sequence[int]) -> Tensor:
    """The noise that image `number` starts from, whatever batch it is in."""
    words = f"generate/{seed}/{number}".encode()
    generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(words).digest()[:8], "big") >> 1)
    return torch.randn(tuple(shape), generator=generator)


@torch.no_grad()
def generate(
    denoiser: Denoiser,
    classes: Sequence[str | int],
    sampling: Sampling | None = None,
    *,
    first: int = 0,
    batch_size: int = 50,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """One image for each element of `classes`, numbered from `first`: -> (n, c, s, s) in [-1, 1]."""
    sampling = sampling or Sampling()
    parts = []
    for start in range(0, len(classes), batch_size):
        chosen = classes[start : start + batch_size]
        noises = [start_noise(sampling.seed, first + start + i, denoiser.latent_shape) for i in range(len(chosen))]
        latents = sample(denoiser, torch.stack(noises), denoiser.conditions(chosen), sampling)
        parts.append(denoiser.decode(latents).cpu())
        if progress is not None:
            progress(len(chosen))
    return torch.cat(parts)


def sample(denoiser: Denoiser, noise: Tensor, condition: Condition, sampling: Sampling) -> Tensor:
    """Denoise: (B, C, H, W) -> (B, C, H, W). With guidance, the batch is [conditional, unconditional]."""
    scheduler = make_scheduler(sampling.scheduler, denoiser.schedule)
    scheduler.set_timesteps(sampling.steps, device=denoiser.device)
    latents = noise.to(denoiser.device) * scheduler.init_noise_sigma
    empty = denoiser.unconditional(len(noise))
    for t in scheduler.timesteps:
        noisy = scheduler.scale_model_input(latents, t)
        times = t.expand(len(noisy))
        if sampling.guidance == 1:
            found = denoiser.noise(noisy, times, condition)
        else:
            both = condition.join(empty)
            with_label, without = denoiser.noise(torch.cat([noisy, noisy]), torch.cat([times, times]), both).chunk(2)
            found = without + sampling.guidance * (with_label - without)
        latents = scheduler.step(found, t, latents).prev_sample
    return latents

"""Training of the bundled models: stateless randomness, so a killed run resumes to the same bits."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bigain.defaults import NUM_TRAIN_TIMESTEPS
from bigain.denoisers.codec import PixelCodec
from bigain.denoisers.labelled import LabelledModel
from bigain.denoisers.precision import low_precision
from bigain.denoisers.schedule import Schedule
from bigain.zoo.augment import augmented
from bigain.zoo.muon import Muon
from bigain.zoo.recipes import Recipe

OUTER = ("model.conv_in", "model.conv_out", "model.pos_embed", "model.proj_out")  # between latents and tokens
VALIDATION = 512  # held-out pairs of (image, t, noise), the same in every run


def step_generator(seed: int, step: int) -> torch.Generator:
    """The randomness of one training step: a function of the seed and the step only."""
    return torch.Generator().manual_seed(seed * 1_000_003 + step)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Warm-up, plateau, linear decay; as a factor of the recipe's rate. Each restart begins a new cycle."""
    ends = [samples // recipe.batch for samples in (*recipe.restarts, recipe.samples) if samples <= recipe.samples]
    first, last = next(((a, b) for a, b in zip([0, *ends], ends, strict=False) if step < b), (0, ends[-1]))
    falling = max(1, int((last - first) * recipe.decay))
    return min(1.0, (step - first + 1) / recipe.warmup, max(0.0, (last - step) / falling))


@dataclass
class Run:
    """A training run in memory: the network, its moving average, the optimisers and the curve so far."""

    recipe: Recipe
    network: LabelledModel
    average: dict[str, Tensor]
    optimisers: list[torch.optim.Optimizer]
    step: int = 0
    seconds: float = 0.0  # of processor time, which a busy machine does not stretch
    curve: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def start(cls, recipe: Recipe, network: LabelledModel) -> "Run":
        average = {name: p.detach().clone() for name, p in network.named_parameters()}
        return cls(recipe, network, average, make_optimisers(recipe, network))

    def save(self, path: Path) -> None:
        """Write beside, then rename: a kill in between leaves the former checkpoint whole."""
        state = {
            "recipe": json.dumps(self.recipe.as_json(), sort_keys=True),
            "network": self.network.state_dict(),
            "average": self.average,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
            "seconds": self.seconds,
            "curve": self.curve,
        }
        beside = path.with_suffix(".tmp")
        torch.save(state, beside)
        beside.replace(path)

    def load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        asked = json.dumps(self.recipe.as_json(), sort_keys=True)
        if state["recipe"] != asked:
            raise ValueError(f"{path} was trained with another recipe:\n{state['recipe']}\nrequested now:\n{asked}")
        self.network.load_state_dict(state["network"])
        self.average = state["average"]
        for optimiser, own in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(own)
        self.step, self.seconds, self.curve = state["step"], state["seconds"], state["curve"]


def make_optimisers(recipe: Recipe, network: LabelledModel) -> list[torch.optim.Optimizer]:
    """AdamW, and Muon for inner matrices where the recipe says so; biases, gains and tables do not decay."""
    inner: list[nn.Parameter] = []
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        matrix = parameter.ndim >= 2 and "embedding_table" not in name and name != "prompts"
        outer = name.startswith(OUTER)
        (inner if matrix and recipe.muon and not outer else decayed if matrix else free).append(parameter)
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": free, "weight_decay": 0.0}]
    optimisers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.99))]
    if inner:
        optimisers.append(Muon(inner, lr=recipe.muon, weight_decay=recipe.weight_decay))
    for group in (group for optimiser in optimisers for group in optimiser.param_groups):
        group["initial_lr"] = group["lr"]
    return optimisers


def denoising_loss(
    network: Callable[..., Tensor], schedule: Schedule, latents: Tensor, labels: Tensor, t: Tensor, noise: Tensor
) -> Tensor:
    """Mean squared error of the predicted noise or velocity."""
    return F.mse_loss(network(schedule.add_noise(latents, noise, t), t, labels), schedule.target(latents, noise))


def batch_rows(recipe: Recipe, count: int, step: int) -> Tensor:
    """Indices of one batch: epochs are permutations, seeded by the epoch."""
    first = step * recipe.batch
    epoch, offset = divmod(first, count)
    rows = torch.randperm(count, generator=step_generator(recipe.seed, -1 - epoch))[offset : offset + recipe.batch]
    if len(rows) < recipe.batch:
        rest = torch.randperm(count, generator=step_generator(recipe.seed, -2 - epoch))
        rows = torch.cat([rows, rest[: recipe.batch - len(rows)]])
    return rows


def train_step(run: Run, schedule: Schedule, latents: Tensor, labels: Tensor) -> float:
    """One update; the timesteps of a batch are stratified, which lowers the variance of the gradient."""
    recipe = run.recipe
    generator = step_generator(recipe.seed, run.step)
    rows = batch_rows(recipe, len(latents), run.step)
    t = (torch.arange(recipe.batch) + torch.rand(recipe.batch, generator=generator)) * (
        NUM_TRAIN_TIMESTEPS / recipe.batch
    )
    dropped = torch.rand(recipe.batch, generator=generator) < recipe.label_dropout
    noise = torch.randn((recipe.batch, *latents.shape[1:]), generator=generator)
    chosen = torch.where(dropped, run.network.classes, labels[rows])

    seen = latents[rows]
    if recipe.augmentation is not None:
        codec = PixelCodec(recipe.image_spec[1])
        pixels = augmented(codec.decode(seen).sample, recipe.augmentation, generator)
        seen = codec.encode(pixels).latent_dist.mode()
    with low_precision(run.network) if recipe.bfloat16 else nullcontext():
        loss = denoising_loss(run.network, schedule, seen, chosen, t.long(), noise)
    run.network.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(run.network.parameters(), 1.0)
    for optimiser in run.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["initial_lr"] * learning_rate(recipe, run.step)
        optimiser.step()
    run.step += 1
    update_average(run)
    return loss.item()


@torch.no_grad()
def update_average(run: Run) -> None:
    keep = min(run.recipe.ema, (1 + run.step) / (10 + run.step))
    for name, parameter in run.network.named_parameters():
        run.average[name].lerp_(parameter, 1 - keep)


@torch.no_grad()
def validation_loss(run: Run, schedule: Schedule, latents: Tensor, labels: Tensor) -> float:
    """The averaged weights on held-out images with fixed t and noise, so that curves of two runs compare."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(latents.shape, generator=generator)
    t = torch.arange(len(latents)) * NUM_TRAIN_TIMESTEPS // len(latents)

    with averaged(run):
        parts = [
            denoising_loss(run.network, schedule, latents[i], labels[i], t[i], noise[i]).item()
            for i in torch.arange(len(latents)).split(64)
        ]
    return sum(parts) / len(parts)


@contextmanager
def averaged(run: Run) -> Iterator[None]:
    """The network with its averaged weights inside the `with` block."""
    own = {name: p.detach().clone() for name, p in run.network.named_parameters()}
    run.network.load_state_dict(run.average, strict=False)
    try:
        yield
    finally:
        run.network.load_state_dict(own, strict=False)

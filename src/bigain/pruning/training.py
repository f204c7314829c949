"""Training of gates: the difference of the final image to the whole model's, plus the share of FLOPs kept."""

from collections import deque
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bigain.denoisers.base import Condition, Denoiser, share_weights
from bigain.denoisers.sampling import make_scheduler
from bigain.generation import Sampling, denoise, image_generator
from bigain.models.family import family_of
from bigain.models.site import Site
from bigain.models.stand_in import attach_stand_ins
from bigain.progress import library_bar
from bigain.pruning.gated import Step, StepReader
from bigain.pruning.gates import GateScores
from bigain.pruning.status import site_cost
from bigain.seeds import hashed

WIDTH = 64
NOTE = 10  # iterations between checkpoints


class GateNetwork(nn.Module):
    """An embedding for each (step, site), one self-attention, and an MLP to two logits a gate, at first for "keep"."""

    def __init__(self, steps: int, sites: int) -> None:
        super().__init__()
        self.shape = steps, sites
        self.embedding = nn.Parameter(torch.randn(1, steps * sites, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 2))
        last: Any = self.mlp[-1]
        nn.init.normal_(last.weight, std=0.02)
        last.bias.data = torch.tensor([0.0, 1.0])

    def forward(self) -> tuple[Tensor, Tensor]:
        """Gates of 0 and 1 that pass gradients on as if they were probabilities, and log-odds: -> (S, L), (S, L)."""
        x = self.norm(self.embedding)
        x = self.embedding + self.attention(x, x, x, need_weights=False)[0]
        logits = self.mlp(x)[0]
        odds = (logits[:, 1] - logits[:, 0]).view(self.shape)
        keep = odds.sigmoid()
        first = torch.arange(self.shape[0])[:, None] == 0
        hard = ((keep > 0.5) | first).to(keep.dtype)
        return torch.where(first, hard, hard + keep - keep.detach()), odds


class SoftSite:
    """Mixes what a site gives with what it gave in the step before, by the gate of its step."""

    def __init__(self, owner: "GateTrainer", number: int) -> None:
        self.owner = owner
        self.number = number
        self.kept: Any = None

    def __call__(self, module: Any, x: Tensor, kwargs: dict[str, Any], reading: Step, rows: Any) -> Any:
        if reading.first or self.owner.gates is None:
            return None
        own, gate = module.forward(x, **kwargs), self.owner.gates[reading.number, self.number]
        self.kept = mixed(own, self.kept, gate)
        return self.kept

    def keep(self, output: Any) -> None:
        self.kept = output


def mixed(own: Any, kept: Any, gate: Tensor) -> Any:
    if isinstance(own, tuple):
        return tuple(mixed(a, b, gate) for a, b in zip(own, kept, strict=True))
    return gate * own + (1 - gate) * kept


class GateTrainer:
    """Trains the gates of a denoiser on a copy that shares its weights; `checkpoint` lets a killed training go on."""

    def __init__(self, denoiser: Denoiser, method: Any, seed: int = 0, checkpoint: Path | None = None) -> None:
        self.method, self.seed, self.checkpoint = method, seed, checkpoint
        self.denoiser = share_weights(denoiser)
        self.denoiser.network.requires_grad_(False)
        self.sampling = Sampling(method.num_inference_steps, 1.0)
        scheduler = make_scheduler(self.denoiser.default_scheduler, self.denoiser.schedule, self.denoiser.mu)
        self.denoiser.set_timesteps(scheduler, method.num_inference_steps)
        self.timesteps = tuple(float(t) for t in scheduler.timesteps)
        self.sites: list[Site] = family_of(self.denoiser.network).sites(self.denoiser.network)
        self.flops = tuple(site_cost(site, denoiser.text_tokens) for site in self.sites)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(hashed("gates", seed))
            self.network = GateNetwork(len(self.timesteps), len(self.sites))
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-2)
        self.gates: Tensor | None = None
        self.history: list[tuple[float, float]] = []  # error and share of FLOPs kept, by iteration
        if checkpoint is not None and checkpoint.is_file():
            self._load(checkpoint)
        blank = self._scores(torch.ones(self.network.shape))
        replacements: Any = {site.name: SoftSite(self, i) for i, site in enumerate(self.sites)}
        self.reader = StepReader(blank)
        attach_stand_ins(self.denoiser.network, self.sites, replacements, self.reader)

    def train(self) -> None:
        """Train up to the method's number of iterations."""
        left = self.method.iterations - len(self.history)
        with library_bar("training gates", max(0, left)) as advance:
            for _ in range(left):
                self.history.append(self.step(len(self.history)))
                if self.checkpoint is not None and len(self.history) % NOTE == 0:
                    self._save(self.checkpoint)
                advance()
        if self.checkpoint is not None:
            self._save(self.checkpoint)

    def step(self, number: int) -> tuple[float, float]:
        """One batch of images, whole and with gates: their difference, and the share of FLOPs kept."""
        noise, condition = self.batch(number)
        self.gates = None
        with torch.no_grad():
            whole = self.image(noise, condition)
        self.gates, _ = self.network()
        error = F.mse_loss(self.image(noise, condition), whole) / whole.var().clamp_min(1e-6)
        cost = torch.tensor(self.flops, dtype=torch.float32) / (sum(self.flops) * len(self.timesteps))
        kept = (self.gates * cost).sum()
        self.optimizer.zero_grad()
        (error + self.method.weight * kept).backward()
        self.optimizer.step()
        self.gates = None
        return float(error.detach()), float(kept.detach())

    def image(self, noise: Tensor, condition: Condition) -> Tensor:
        self.reader.reset()
        generators = [image_generator(self.seed, number) for number in range(len(noise))]
        steps = denoise(self.denoiser, noise, condition, self.sampling, generators, first=0)
        return deque(steps, maxlen=1)[0].latents

    def batch(self, number: int) -> tuple[Tensor, Condition]:
        """Noise and classes that depend on the seed and the iteration; without classes, the empty condition."""
        generator = torch.Generator().manual_seed(hashed("gates", self.seed, number))
        rows = self.method.batch_size
        noise = torch.randn(rows, *self.denoiser.latent_shape, generator=generator)
        classes: Any = getattr(self.denoiser, "classes", None)
        if not classes:
            return noise, self.denoiser.unconditional(rows)
        chosen = torch.randint(len(classes), (rows,), generator=generator).tolist()
        return noise, self.denoiser.conditions([classes[i] for i in chosen])

    @torch.no_grad()
    def scores(self) -> GateScores:
        """The log-odds of keeping, as they are now."""
        return self._scores(self.network()[1])

    def _scores(self, odds: Tensor) -> GateScores:
        rows = tuple(tuple(round(score, 6) for score in row) for row in odds.tolist())
        trained = {"iterations": len(self.history), "seed": self.seed, "weight": self.method.weight}
        trained |= {"batch_size": self.method.batch_size, "error and share kept": self.history[9::10]}
        names = tuple(site.name for site in self.sites)
        return GateScores(type(self.denoiser.network).__name__, self.timesteps, names, self.flops, rows, trained)

    def _save(self, path: Path) -> None:
        part = path.with_suffix(".part")
        state = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state | {"history": self.history, "identity": self._identity()}, part)
        part.replace(path)

    def _load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        if state["identity"] != self._identity():
            raise ValueError(f"{path} is a checkpoint of other gates; remove it, or use another file")
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.history = [tuple(pair) for pair in state["history"]]

    def _identity(self) -> str:
        method = self.method
        return repr((method.num_inference_steps, method.batch_size, method.weight, self.seed, self.flops))

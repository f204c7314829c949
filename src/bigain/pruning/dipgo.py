"""DiP-GO: a small network learns which attention and MLPs of a trajectory may give what they gave a step before."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bigain.checks import check_count
from bigain.denoisers.base import Denoiser
from bigain.pruning.checks import check_between, is_real
from bigain.pruning.gated import Gated
from bigain.pruning.gates import GateScores
from bigain.pruning.methods import METHODS


@METHODS.register("dipgo")
@dataclass(frozen=True)
class DipGo:
    """Skipped blocks by learned gates (DiP-GO).

    `target` is the share of the FLOPs of attention and MLPs that is skipped over a trajectory. `scores` is a JSON file
    of earlier training; without it the gates are trained now, which takes minutes for a bundled model: `iterations`
    batches of `batch_size` images of `num_inference_steps` steps, with `weight` times the share of FLOPs kept beside
    the images' error.
    """

    needs_images: ClassVar[bool] = False
    sequential: ClassVar[bool] = True  # passes must come in the order of falling timesteps

    target: float
    scores: str | None = None
    num_inference_steps: int = 25
    iterations: int = 150
    batch_size: int = 2
    weight: float = 0.1

    def __post_init__(self) -> None:
        check_between("target", self.target, 0, 1)
        if self.scores is not None and not isinstance(self.scores, str | Path):
            raise TypeError(f"scores must be a JSON file, got {self.scores!r}")
        for name in ("num_inference_steps", "iterations", "batch_size"):
            check_count(name, getattr(self, name))
        if self.num_inference_steps < 2:
            raise ValueError("num_inference_steps must be at least 2: the first step has none before it")
        most = (self.num_inference_steps - 1) / self.num_inference_steps
        if self.scores is None and self.target > most:
            steps = self.num_inference_steps
            raise ValueError(f"target must be at most {most:.3g} with {steps} steps, got {self.target}")
        if not is_real(self.weight) or not 0 < self.weight < math.inf:
            raise ValueError(f"weight must be a number above 0, got {self.weight!r}")

    def fit(self, denoiser: Denoiser, calibration: Any = None, labels: Any = None, seed: int = 0) -> Gated:
        """The gates of the target; images are not needed."""
        if self.scores is None:
            from bigain.pruning.training import GateTrainer

            trainer = GateTrainer(denoiser, self, seed)
            trainer.train()
            scores = trainer.scores()
        else:
            scores = GateScores.load(self.scores)
        return Gated(self, scores, scores.open_gates(self.target), denoiser.text_tokens)

"""Gates: which sites run in which step of a trajectory, from learned scores, as a JSON file."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

FORMAT = 1  # of the JSON file


@dataclass(frozen=True)
class GateScores:
    """How much each gate is worth keeping: for each step, in the order of falling timesteps, one score a site.

    `flops` are those of each site. The gates of the first step stay open, so their scores do not matter.
    """

    model: str
    timesteps: tuple[float, ...]
    sites: tuple[str, ...]
    flops: tuple[int, ...]
    scores: tuple[tuple[float, ...], ...]
    trained: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("timesteps", "sites", "flops"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "scores", tuple(map(tuple, self.scores)))
        if list(self.timesteps) != sorted(set(self.timesteps), reverse=True) or not self.timesteps:
            raise ValueError(f"timesteps must fall from step to step, got {self.timesteps}")
        shape = {len(row) for row in self.scores} | {len(self.flops)}
        if len(self.scores) != len(self.timesteps) or shape != {len(self.sites)}:
            raise ValueError(f"scores must be {len(self.timesteps)} rows of {len(self.sites)} numbers, one a site")
        if not all(isinstance(score, int | float) and math.isfinite(score) for row in self.scores for score in row):
            raise ValueError("scores must be finite numbers")

    def open_gates(self, target: float) -> tuple[tuple[bool, ...], ...]:
        """Close gates below a threshold, the smallest that saves a share of the FLOPs: -> (steps, sites).

        Gates with the same score are taken in the order of the steps.
        """
        steps, total = len(self.timesteps), len(self.timesteps) * sum(self.flops)
        if target > (steps - 1) / steps:
            raise ValueError(f"target must be at most {(steps - 1) / steps:.3g} with {steps} steps, got {target}")
        order = sorted((self.scores[s][i], s, i) for s in range(1, steps) for i in range(len(self.sites)))
        found, saved = [[True] * len(self.sites) for _ in range(steps)], 0
        for _, step, site in order:
            if saved >= target * total - 1e-9:
                break
            found[step][site] = False
            saved += self.flops[site]
        return tuple(map(tuple, found))

    def step(self, t: float) -> int:
        """The step whose timestep is nearest."""
        return min(range(len(self.timesteps)), key=lambda i: abs(self.timesteps[i] - t))

    def save(self, path: str | Path) -> None:
        """Write the scores as JSON."""
        Path(path).write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "GateScores":
        """Read scores that `save` wrote."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8-sig"))
            if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
                raise ValueError(f"expected an object of format {FORMAT}")
            names = [each.name for each in fields(cls)]
            if set(found) - set(names):
                raise ValueError(f"unknown key {min(set(found) - set(names))!r}")
            return cls(**found)
        except FileNotFoundError:
            raise FileNotFoundError(f"no gate scores {path}; write them with benchmarks/train_gates.py") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} does not hold gate scores: {error}") from error


def share_open(gates: Sequence[Sequence[bool]], flops: Sequence[int]) -> float:
    """The share of the FLOPs that open gates keep."""
    kept = sum(cost for row in gates for is_open, cost in zip(row, flops, strict=True) if is_open)
    return kept / (len(gates) * sum(flops))

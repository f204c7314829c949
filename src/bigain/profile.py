"""Timestep profiles: which timesteps tell classes apart, in which order, and how much each counts."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any

from bigain.checks import plain_ints, whole

FORMAT = 1  # of the JSON file


@dataclass(frozen=True)
class TimestepProfile:
    """Timesteps in the order of use, each with the weight of its error in a decision.

    A repeated timestep gets new noise. `spreads` say how far the errors of two rival classes differ there, which
    `curtail` and `race` need; none means that they were not measured. `scale` is the log-odds of one unit of weighted
    error, summed over trials: class k has a probability proportional to exp(−scale · Σ w_r e_kr). None means that it
    was not fitted. The rest says what the profile was fitted on, and `note` why the weights are equal where they are.
    """

    timesteps: tuple[int, ...]
    weights: tuple[float, ...]
    spreads: tuple[float, ...] = ()
    scale: float | None = None
    model: str = ""
    classes: tuple[str | int, ...] = ()
    images: int = 0
    labelled: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("timesteps", "weights", "spreads", "classes"):
            object.__setattr__(self, name, plain_ints(tuple(getattr(self, name))))
        if not self.timesteps or any(whole(t) is None or t < 0 for t in self.timesteps):
            raise ValueError(f"timesteps must be ints of at least 0, and at least one, got {self.timesteps}")
        weights = positive("weights", self.weights, len(self.timesteps))
        mean = math.fsum(weights) / len(weights)
        object.__setattr__(self, "weights", tuple(weight / mean for weight in weights))
        if self.spreads:
            object.__setattr__(self, "spreads", positive("spreads", self.spreads, len(self.timesteps)))
        if self.scale is not None and not (isinstance(self.scale, Real) and 0 < self.scale < math.inf):
            raise ValueError(f"scale must be a positive number or None, got {self.scale!r}")

    @property
    def equal(self) -> bool:
        """Whether all timesteps count alike."""
        return len(set(self.weights)) == 1

    def save(self, path: str | Path) -> None:
        """Write the profile as JSON."""
        Path(path).write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "TimestepProfile":
        """Read a profile that `save` wrote."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8-sig"))
            return cls.from_dict(found)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"no timestep profile {path}; write one with `bigain fit`, or with profile.save(path) in Python"
            ) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is not a timestep profile: {error}") from error

    @classmethod
    def from_dict(cls, found: Any) -> "TimestepProfile":
        """The content of a JSON file."""
        names = [field.name for field in fields(cls)]
        if not isinstance(found, dict) or "timesteps" not in found or "weights" not in found:
            raise ValueError("expected an object with timesteps and weights")
        if found.get("format") != FORMAT:
            raise ValueError(f"its format must be {FORMAT}, got {found.get('format')!r}")
        unknown = [key for key in found if key not in (*names, "format")]
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}")
        return cls(**{key: value for key, value in found.items() if key in names})

    def __str__(self) -> str:
        made = f"{self.images} {'labelled' if self.labelled else 'unlabelled'} images" if self.images else "no images"
        kind = "equal weights" if self.equal else "fitted weights"
        return f"{len(self.timesteps)} timesteps, {kind}, from {made}" + (f": {self.note}" if self.note else "")


def positive(what: str, values: Sequence[Any], count: int) -> tuple[float, ...]:
    """As many positive numbers as timesteps."""
    numbers = [value for value in values if isinstance(value, Real) and not isinstance(value, bool)]
    if len(numbers) != count or len(values) != count or not all(0 < float(v) < math.inf for v in numbers):
        raise ValueError(f"{what} must be {count} positive numbers, one per timestep, got {values!r}")
    return tuple(map(float, numbers))

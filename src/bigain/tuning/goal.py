"""What is wanted of a setting, and which of several verified ones is best."""

from collections.abc import Sequence
from dataclasses import dataclass

from bigain.compression.setting import Compression
from bigain.tuning.costs import Saved
from bigain.tuning.verify import Verified

SLACK = 1e-6


@dataclass(frozen=True)
class Goal:
    """What is wanted: a saving of the FLOPs, or a share to keep; in classification, in generation, or in both."""

    save: float | None = None
    keep: float | None = None
    classify: bool = True
    generate: bool = True

    def __post_init__(self) -> None:
        if (self.save is None) == (self.keep is None):
            raise ValueError(f"give either save= or keep=, got save={self.save!r} and keep={self.keep!r}")
        name, value = ("keep", self.keep) if self.save is None else ("save", self.save)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            percent = isinstance(value, int | float) and not isinstance(value, bool) and 1 < value < 100
            hint = f"; did you mean {value / 100:g}?" if percent and value is not None else ""
            raise ValueError(f"{name} must be a share in (0, 1), got {value!r}{hint}")

    @property
    def weight(self) -> float:
        """How much classification counts beside generation."""
        return (self.classify + (1 - self.generate)) / 2

    def saving(self, share: float) -> Saved:
        """A saving, of what is asked for only."""
        return Saved(share if self.classify else -1.0, share if self.generate else -1.0)

    def saved(self, verified: Verified) -> float:
        """The smallest saving of what is asked for."""
        pairs = zip((self.classify, self.generate), verified.saved, strict=True)
        return min(share for asked, share in pairs if asked)

    def met(self, verified: Verified) -> bool:
        if self.save is not None:
            return self.saved(verified) >= self.save - SLACK
        return verified.kept() >= (self.keep or 0) - SLACK


@dataclass(frozen=True)
class Candidate:
    """Operators that were verified."""

    name: str
    parts: tuple[Compression, ...]
    verified: Verified
    tuned: bool = True


def best(candidates: Sequence[Candidate], goal: Goal) -> Candidate | None:
    """Of those that meet the goal, the one that loses least, or saves most; else the nearest to it."""
    met = [one for one in candidates if goal.met(one.verified)]
    if not met:
        return max(candidates, key=lambda one: nearness(one, goal), default=None)
    if goal.save is None:
        return max(met, key=lambda one: goal.saved(one.verified))
    means = [sum(losses) / len(met) or 1.0 for losses in zip(*(one.verified.loss() for one in met), strict=True)]
    return min(met, key=lambda one: sum(a / b for a, b in zip(one.verified.loss(), means, strict=True)))


def nearness(candidate: Candidate, goal: Goal) -> float:
    """How near a candidate is to a goal that it misses."""
    return goal.saved(candidate.verified) if goal.save is not None else candidate.verified.kept()

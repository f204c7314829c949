"""Candidates one after the other: those that one operator gives, those that were tuned, each verified once."""

from collections.abc import Sequence
from functools import partial

from bigain.compression.setting import Compression
from bigain.models.site import Site
from bigain.tuning.costs import Saved
from bigain.tuning.goal import Candidate, Goal
from bigain.tuning.search import Map, Searching
from bigain.tuning.uniform import Uniform, uniforms
from bigain.tuning.verify import Verified, Verifier

STEP = 0.05  # of savings that are tried where a share is to be kept
OTHERS = (0.25, 0.75)  # weights of classification beside generation


class Trials:
    """Verified candidates."""

    def __init__(self, goal: Goal, verifier: Verifier, work: Searching) -> None:
        self.goal, self.verifier, self.work = goal, verifier, work
        self.done: list[Candidate] = []

    def run(self, name: str, parts: tuple[Compression, ...], tuned: bool = True) -> Candidate | None:
        """Verify operators, unless they were already; None if the time is over. The first are always verified."""
        known = next((one for one in self.done if one.parts == parts), None)
        key = f"verified {' | '.join(map(str, parts))}"
        if known is not None or not parts:
            return known
        if self.done and self.work.clock.past(1.0) and key not in self.work.checkpoint.known:
            return None
        found = self.work.checkpoint.value(key, lambda: self.verifier(parts).as_json())
        self.done.append(Candidate(name, parts, Verified.from_json(found), tuned))
        self.work.progress("verifying", len(self.done), len(self.done))
        return self.done[-1]

    def saving(self, found: Map, sites: Sequence[Site], share: float, rivals: int) -> None:
        """Candidates that save a share: tuned ones and the best uniform ones."""
        wanted = self.goal.saving(share)
        self.run("tuned", found.choose(wanted, self.goal.weight) or found.most())
        for rival in ranked(self.work, found, sites, wanted)[:rivals]:
            self.run(rival.name, rival.parts, tuned=False)
        for banded, weights in ((False, (self.goal.weight,)), (True, OTHERS if self.goal.weight == 0.5 else ())):
            for weight in weights:
                parts = found.choose(wanted, weight, banded)
                name = f"tuned, weight {weight:g}" if banded else "tuned, all timesteps alike"
                self.run(name, parts or ())

    def keeping(self, found: Map) -> None:
        """Candidates of growing and falling savings, around the largest that keeps enough."""
        low, high = (
            1,
            int(self.goal.saved(Verified(self.verifier.costs.of_parts(found.most(), self.verifier.steps))) / STEP),
        )
        high = max(high, 1)
        while low <= high:
            middle = (low + high) // 2
            share = middle * STEP
            parts = found.choose(self.goal.saving(share), self.goal.weight) or found.most()
            candidate = self.run(f"tuned to save {share:.0%}", parts)
            if candidate is None:
                return
            low, high = (middle + 1, high) if self.goal.met(candidate.verified) else (low, middle - 1)


def ranked(work: Searching, found: Map, sites: Sequence[Site], wanted: Saved) -> list[Uniform]:
    """Uniform operators that save enough, the one with the least effect on the images of the search first."""
    correct = any(row.action.correct for row in found.rows)
    steps = found.steps

    def saved(parts: tuple[Compression, ...]) -> Saved:
        return work.costs.of_parts(parts, steps)

    rows: list[tuple[Uniform, tuple[float, float]]] = []
    for uniform in uniforms(sites, wanted, saved, correct):
        if rows and work.clock.past(0.75):
            break
        effects = work.checkpoint.value(f"effect of {uniform.parts[0]}", partial(effect, work, uniform))
        rows.append((uniform, found.total(effects)))
        work.progress("measuring uniform operators", len(rows), len(rows))
    least = [min((totals[i] for _, totals in rows), default=0.0) or 1.0 for i in (0, 1)]
    rows.sort(key=lambda row: row[1][0] / least[0] + row[1][1] / least[1])
    return [uniform for uniform, _ in rows]


def effect(work: Searching, uniform: Uniform) -> list[list[float] | None]:
    """Both effects by band."""
    both = work.reference.classify(uniform.parts), work.reference.generate(uniform.parts)
    return [None if one is None else list(one) for one in both]

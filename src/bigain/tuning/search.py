"""Effects of single actions, measured, and the choices of actions that save enough with the least effect."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from bigain.compression.setting import Compression
from bigain.models.costs import site_flops
from bigain.models.site import Site
from bigain.models.windows import Window, holds
from bigain.tuning.actions import Action, actions_at, as_parts, one_site
from bigain.tuning.checkpoint import Checkpoint
from bigain.tuning.costs import Costs, Saved
from bigain.tuning.knapsack import Item, cheapest, most
from bigain.tuning.meter import Effect, Reference

LEAST = 1e-4  # share of all FLOPs; what saves less is not tried
STEP = 0.05  # of savings for which losses are foretold
CALIBRATED = "gated_merge(ratio=0.5)"  # acts in one band after the other, to see what reaches the image
Progress = Callable[[str, int, int], None]  # what is done, how much of it, of how much


class Clock:
    """The time that is left."""

    def __init__(self, minutes: float) -> None:
        self.begin, self.seconds = time.monotonic(), 60 * minutes

    def past(self, share: float) -> bool:
        """Whether this share of the time has passed."""
        return time.monotonic() - self.begin > share * self.seconds


class Measured(NamedTuple):
    """An action, what it saves if it acts always, and what it changes in each band."""

    action: Action
    saved: Saved
    effect: Effect


class Place(NamedTuple):
    """Where and when: a site and the number of a band."""

    site: str
    band: int


class Point(NamedTuple):
    """A saving, and what is foretold to be lost: the error of class differences, and 1 - SSIM."""

    saved: Saved
    lost: tuple[float, float]


class Map:
    """The sensitivity map: the effect of each action at each site."""

    def __init__(self, sites: Sequence[Site], bands: Sequence[Window], rows: Sequence[Measured]) -> None:
        self.sites, self.bands, self.rows = sites, bands, rows
        self.shares: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())  # of passes in each band
        self.steps: Sequence[float] = ()  # timesteps of the sampler
        self.reach: tuple[float, ...] = (1.0,) * len(bands)  # of an effect in a band on the image

    def effects(self, row: Measured, weights: tuple[float, float], scale: tuple[float, float]) -> list[float]:
        """One number for each band: both capabilities, weighted and scaled."""
        classify = row.effect.classify or (0.0,) * len(self.bands)
        generate = row.effect.generate or (0.0,) * len(self.bands)
        images = [a * b for a, b in zip(generate, self.reach, strict=True)]
        return [weights[0] * c / scale[0] + weights[1] * g / scale[1] for c, g in zip(classify, images, strict=True)]

    def total(self, effects: Sequence[Sequence[float] | None]) -> tuple[float, float]:
        """Both effects by band as one number each."""
        classify, generate = (one or (0.0,) * len(self.bands) for one in effects)
        return sum(classify), sum(a * b for a, b in zip(generate, self.reach, strict=True))

    def items(
        self, weights: tuple[float, float], scale: tuple[float, float], banded: bool
    ) -> tuple[list[Item], list[list[tuple[Place, Action]]]]:
        """Items of the knapsack, and what each of them chooses; without bands an action acts always."""
        items, means = list[Item](), list[list[tuple[Place, Action]]]()
        count = range(len(self.bands))
        for row in self.rows:
            effects = self.effects(row, weights, scale)
            if not banded:
                items.append(Item(row.action.site, row.saved, sum(effects)))
                means.append([(Place(row.action.site, band), row.action) for band in count])
                continue
            for band in count:
                place = Place(row.action.site, band)
                saved = tuple(s * share[band] for s, share in zip(row.saved, self.shares, strict=True))
                items.append(Item(place, saved, effects[band]))
                means.append([(place, row.action)])
        return items, means

    def parts(self, numbers: Iterable[int], means: list[list[tuple[Place, Action]]]) -> tuple[Compression, ...]:
        chosen = {(place.site, place.band): action for number in numbers for place, action in means[number]}
        return as_parts(chosen, self.sites, self.bands)

    def choose(self, wanted: Saved, weight: float, banded: bool = True) -> tuple[Compression, ...] | None:
        """The operators that save what is wanted with the least effect; `weight` is that of classification.

        Each capability counts in units of the least effect on it that the saving allows. None if nothing saves enough.
        """
        least = [self._least(wanted, weights, banded) for weights in ((1.0, 0.0), (0.0, 1.0))]
        items, means = self.items((weight, 1 - weight), (least[0] or 1.0, least[1] or 1.0), banded)
        found = cheapest(items, wanted)
        return None if found is None else self.parts(found, means)

    def frontier(self, wanted: Callable[[float], Saved], weight: float) -> "list[Point]":
        """What the sums of effects foretell for one saving after the other, up to the largest."""
        found: list[Point] = []
        for share in (STEP * number for number in range(1, round(1 / STEP))):
            least = [self._least(wanted(share), weights, True) for weights in ((1.0, 0.0), (0.0, 1.0))]
            items, _ = self.items((weight, 1 - weight), (least[0] or 1.0, least[1] or 1.0), True)
            chosen = cheapest(items, wanted(share))
            if chosen is None:
                return found
            single = [self.items(weights, (1.0, 1.0), True)[0] for weights in ((1.0, 0.0), (0.0, 1.0))]
            effects = [sum(one[number].effect for number in chosen) for one in single]
            saved = [sum(items[number].saved[i] for number in chosen) for i in (0, 1)]
            found.append(Point(Saved(*saved), (math.sqrt(effects[0]), effects[1])))
        return found

    def _least(self, wanted: Saved, weights: tuple[float, float], banded: bool) -> float:
        items, _ = self.items(weights, (1.0, 1.0), banded)
        return sum(items[number].effect for number in cheapest(items, wanted) or ())

    def most(self) -> tuple[Compression, ...]:
        """The operators that save most."""
        items, means = self.items((1.0, 1.0), (1.0, 1.0), banded=False)
        return self.parts(most(items), means)


class Searching(NamedTuple):
    """What the measurement of the map needs."""

    reference: Reference
    costs: Costs
    checkpoint: Checkpoint
    clock: Clock
    progress: Progress


def measure_map(
    work: Searching, sites: Sequence[Site], operators: Sequence[str], corrections: Sequence[bool], share: float
) -> Map:
    """Each action alone, one operator at all sites after the other, until this share of the time has passed."""
    order = sorted(sites, key=lambda site: -site_flops(site, site.tokens, site.tokens))
    actions = [
        (site, action)
        for operator in operators
        for correct in corrections
        for site in order
        for action in actions_at(site, operator, correct)
    ]
    rows: list[Measured] = []
    for number, (site, action) in enumerate(actions):
        if rows and work.clock.past(share) and action.key not in work.checkpoint.known:
            continue
        saved = work.costs.of_action(site, action)
        if min(saved) > LEAST:
            rows.append(Measured(action, saved, measure(work, site, action)))
        work.progress("measuring single actions", number + 1, len(actions))
    return Map(sites, work.reference.bands, rows)


def measure(work: Searching, site: Site, action: Action) -> Effect:
    """What an action changes; generation does not know corrections."""
    known, reference = work.checkpoint, work.reference
    classify = known.value(f"classify {action.key}", lambda: reference.classify([one_site(site, action)]))
    plain = action._replace(correct=False)
    generate = known.value(f"generate {plain.key}", lambda: reference.generate([one_site(site, plain)]))
    return Effect(classify and tuple(classify), generate and tuple(generate))


def calibrate(work: Searching, found: Map, steps: Sequence[float], last: int) -> None:
    """Set what share of the passes each band has, and how much of an effect there reaches the image."""
    even = range(last + 1)
    counts = [[sum(holds(band, t) for t in all_steps) for band in found.bands] for all_steps in (even, steps)]
    found.steps = steps
    found.shares = tuple(tuple(count / sum(row) for count in row) for row in counts)  # type: ignore[assignment]
    if work.reference.subjects is None:
        return
    reach = []
    for number, band in enumerate(found.bands):
        part = Compression(CALIBRATED, when=band)
        name = f"reach of {band}"
        image = work.checkpoint.value(name, partial(work.reference.final, [part]))
        passes = work.checkpoint.value(f"passes of {band}", partial(work.reference.generate, [part]))
        reach.append(image / passes[number] if passes[number] > 0 else 0.0)
        work.progress("which timesteps reach the image", number + 1, len(found.bands))
    found.reach = tuple(reach)

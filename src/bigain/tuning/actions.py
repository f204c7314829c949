"""What may be done at a site, and choices for all sites as operators of `compress`."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bigain.compression.setting import Compression
from bigain.models.site import Site, Where
from bigain.models.windows import Window
from bigain.operators.base import parse

# in the order in which they are measured: where time is short, some of them at all sites
OPERATORS = (
    "gated_merge(ratio=0.5)",
    "gated_merge(ratio=0.7)",
    "kv_downsample(factor=2)",
    "tome(ratio=0.5)",
    "gated_merge(ratio=0.3)",
    "tome(ratio=0.7)",
    "kv_downsample(factor=4)",
    "tome(ratio=0.3)",
    "block_merge(ratio=0.5)",
    "gated_merge(ratio=0.9, window=4)",
)


class Action(NamedTuple):
    """An operator at one site, with or without the correction of what the classes of a trial share."""

    site: str  # the name of the site
    operator: str
    correct: bool

    @property
    def key(self) -> str:
        """Its name in a checkpoint."""
        return f"{self.site} {self.operator}{' corrected' if self.correct else ''}"


Chosen = Mapping[tuple[str, int], Action]  # by site and band; sites without an action are not there


def actions_at(site: Site, operator: str, correct: bool) -> list[Action]:
    """The action of an operator at a site, if it makes sense there: key-value operators leave queries as they are."""
    able = site.kind == "self" or parse(operator).reduces_queries
    return [Action(site.name, operator, correct)] if able else []


def even_bands(count: int, last: int) -> tuple[Window, ...]:
    """All timesteps to `last` in windows of about one length: 3, 999 -> (0, 332), (333, 665), (666, 999)."""
    edges = [round(i * last / count) for i in range(count)] + [last + 1]
    return tuple((low, high - 1) for low, high in itertools.pairwise(edges))


def one_site(site: Site, action: Action, when: Window | None = None) -> Compression:
    """An action as an operator on its site."""
    where = Where(index=site.index, module=site.kind, part=site.part)
    return Compression(action.operator, where, groups="classes", correct=action.correct, when=when)


def as_parts(chosen: Chosen, sites: Sequence[Site], bands: Sequence[Window]) -> tuple[Compression, ...]:
    """As few operators as possible that do what was chosen: sites of one block share a plan."""
    kinds: dict[tuple[str, bool, Window | None], dict[tuple[int, str], set[str]]] = {}
    for site in sites:
        for (operator, correct), when in windows_of(site, chosen, bands):
            places = kinds.setdefault((operator, correct, when), {})
            places.setdefault((site.index, site.part), set()).add(site.kind)
    parts = []
    for (operator, correct, when), places in kinds.items():
        alike: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        for place, found in places.items():
            alike.setdefault(tuple(sorted(found)), []).append(place)
        for modules, where in alike.items():
            chosen_sites = Where(
                index=plain(tuple(index for index, _ in where)),
                part=plain(tuple(dict.fromkeys(part for _, part in where))),
                module=plain(modules),
            )
            parts.append(Compression(operator, chosen_sites, groups="classes", correct=correct, when=when))
    return tuple(parts)


def plain(values: tuple[Any, ...]) -> Any:
    """A single value instead of a tuple of one."""
    return values[0] if len(values) == 1 else values


def windows_of(site: Site, chosen: Chosen, bands: Sequence[Window]) -> list[tuple[tuple[str, bool], Window | None]]:
    """What acts at a site and when; neighbouring bands with the same action are one window, all of them None."""
    runs: list[tuple[tuple[str, bool], int, int]] = []
    for band in range(len(bands)):
        action = chosen.get((site.name, band))
        if action is None:
            continue
        what = (action.operator, action.correct)
        if runs and runs[-1][0] == what and runs[-1][2] == band - 1:
            runs[-1] = (what, runs[-1][1], band)
        else:
            runs.append((what, band, band))
    everywhere = len(bands) - 1
    return [
        (what, None if (first, last) == (0, everywhere) else (bands[first][0], bands[last][1]))
        for what, first, last in runs
    ]

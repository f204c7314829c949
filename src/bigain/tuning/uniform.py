"""The best that one operator with one ratio does, everywhere or in the usual places: what tuning must beat."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bigain.compression.setting import Compression
from bigain.models.site import Site, Where
from bigain.tuning.costs import Saved

RATIOS = tuple(round(0.05 * i, 2) for i in range(1, 16))
FACTORS = (2, 3, 4, 6, 8)
MERGING = ("gated_merge(ratio={})", "tome(ratio={})", "block_merge(ratio={})")
POOLING = ("kv_downsample(factor={})",)


class Uniform(NamedTuple):
    """One operator with one strength."""

    name: str
    parts: tuple[Compression, ...]


def places(sites: Sequence[Site]) -> dict[str, Where]:
    """Where one operator may act: the usual sites, all self-attention, and everything that tokens pass through."""
    kinds = tuple(dict.fromkeys(site.kind for site in sites))
    everywhere = {index: None for index in sorted({site.index for site in sites})}
    found = {"the usual sites": Where(), "all attention": Where(index=tuple(everywhere))}
    return found | ({"everywhere": Where(index=tuple(everywhere), module=kinds)} if len(kinds) > 1 else {})


def uniforms(
    sites: Sequence[Site], wanted: Saved, saved: Callable[[tuple[Compression, ...]], Saved], correct: bool
) -> Iterator[Uniform]:
    """For each operator and place the weakest strength that saves what is wanted, where there is one."""
    for name, where in places(sites).items():
        pooling = () if len(where.module) > 1 and where.module != "self" else POOLING
        for template, strengths in [(text, RATIOS) for text in MERGING] + [(text, FACTORS) for text in pooling]:
            steps = [(Compression(template.format(x), where, groups="classes", correct=correct),) for x in strengths]
            weakest = first_enough(possible(steps, saved), wanted, saved)
            if weakest is not None:
                yield Uniform(f"{template.format(strengths[weakest])}, {name}", steps[weakest])


def possible(
    steps: Sequence[tuple[Compression, ...]], saved: Callable[[tuple[Compression, ...]], Saved]
) -> Sequence[tuple[Compression, ...]]:
    """Without the strongest, where the model refuses them, such as a factor that leaves no key."""
    while steps:
        try:
            saved(steps[-1])
        except ValueError:
            steps = steps[:-1]
        else:
            break
    return steps


def first_enough(
    steps: Sequence[tuple[Compression, ...]], wanted: Saved, saved: Callable[[tuple[Compression, ...]], Saved]
) -> int | None:
    """The number of the first that saves enough; what they save grows."""

    def enough(number: int) -> bool:
        found = saved(steps[number])
        return found.classify >= wanted.classify and found.generate >= wanted.generate

    low, high = 0, len(steps) - 1
    if not steps or not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low

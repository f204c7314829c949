"""Caches in the rows of an experiment: as they are written, and what a step costs with them."""

from collections.abc import Callable
from typing import Any

from bigain.caching import Cache, cache_spec, parse_cache


def row_cache(row: dict[str, Any], fill: Callable[[str], str]) -> Cache | None:
    """The cache of a row; `fill` puts swept values into its braces."""
    if "cache" not in row:
        return None
    if not isinstance(row["cache"], str):
        raise ValueError(f"cache must be a string, such as 'every(k=3)', got {row['cache']!r}")
    found: Cache = parse_cache(fill(row["cache"]))
    return found


def check_cached(name: str, tasks: tuple[str, ...], chosen: Cache | None) -> None:
    if chosen is not None and "classify" in tasks:
        raise ValueError(
            f"row {name!r} cannot classify with {cache_spec(chosen)}, which reuses outputs of earlier sampler steps, "
            'because trials have none; add tasks = ["generate"] to the row'
        )

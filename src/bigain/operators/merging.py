"""Merging by matching: destinations differ between operators, the rest is shared."""

import torch
from torch import Tensor

from bigain.tokens.grid import Grid, Window, left_over, other_places, token_index
from bigain.tokens.match import best_match, merge_most_similar
from bigain.tokens.plan import Assignment, assign


def merge_into(place: Tensor, x: Tensor, grid: Grid, window: Window, removed: int, weighted: bool) -> Assignment:
    """Merge the `removed` best-matched sources into the destinations at `place` of each cell.

    (B, T) or (1, T), (B, N, C) -> Assignment.
    """
    sources, destinations = split_tokens(place, grid, window, len(x))
    value, best = best_match(x, sources, destinations)
    target = merge_most_similar(grid.tokens, sources, value, best, removed)
    return assign(target, removed, weighted=weighted)


def split_tokens(place: Tensor, grid: Grid, window: Window, rows: int) -> tuple[Tensor, Tensor]:
    """Numbers of all other tokens, and of the destinations: (B, T) -> (B, N - T), (B, T)."""
    others = token_index(other_places(place, window.tokens), grid, window).flatten(1)
    rest = left_over(grid, window, place.device).expand(len(place), -1)
    destinations = token_index(place, grid, window)
    return torch.cat([others, rest], 1).expand(rows, -1), destinations.expand(rows, -1)

"""The shape of a token grid, and its division into cells.

Shape alphabet, for the whole library: B batch, N tokens, M groups, C channels, H W grid, T tiles (cells),
A tokens per tile, K keys or classes, R trials, S sources.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bigain.tokens.constants import constant, numbers


class Grid(NamedTuple):
    """Height and width of the map that a token sequence came from, row by row."""

    height: int
    width: int

    @property
    def tokens(self) -> int:
        return self.height * self.width

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"


class Window(NamedTuple):
    """Height and width of a cell."""

    height: int
    width: int

    @property
    def tokens(self) -> int:
        return self.height * self.width

    def cells(self, grid: Grid) -> Grid:
        """The grid of whole cells; rows and columns that fill no whole cell are left over."""
        return Grid(grid.height // self.height, grid.width // self.width)

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"


def fold(values: Tensor, grid: Grid, window: Window) -> Tensor:
    """Values of whole cells, each cell row by row: (B, N) -> (B, T, A)."""
    rows, columns = window.cells(grid)
    maps = values.view(-1, grid.height, grid.width)
    maps = maps[:, : rows * window.height, : columns * window.width]
    maps = maps.reshape(-1, rows, window.height, columns, window.width)
    return maps.permute(0, 1, 3, 2, 4).reshape(-1, rows * columns, window.tokens)


def token_index(place: Tensor, grid: Grid, window: Window) -> Tensor:
    """Token numbers of places in cells, the cell being the position along the second axis: (B, T, ...) -> same."""
    first = first_tokens(grid, window, place.device).view(-1, *[1] * (place.ndim - 2))
    return first + inside(place, grid, window)


def inside(place: Tensor, grid: Grid, window: Window) -> Tensor:
    """How far from the first token of its cell a place is: any shape -> same."""
    return (place // window.width) * grid.width + place % window.width


@constant
def first_tokens(grid: Grid, window: Window, device: torch.device) -> Tensor:
    """Number of the first token of each cell: () -> (T,)."""
    cells = window.cells(grid)
    cell = numbers(cells.tokens, device)
    return (cell // cells.width) * window.height * grid.width + (cell % cells.width) * window.width


def other_places(place: Tensor, tokens: int) -> Tensor:
    """All places of a cell but one, in order: (B, T) -> (B, T, A - 1)."""
    others = numbers(tokens - 1, place.device)
    return others + (others >= place[..., None])


def split_tokens(place: Tensor, grid: Grid, window: Window, rows: int) -> tuple[Tensor, Tensor]:
    """Numbers of all other tokens, and of those at `place` of each cell: (B, T) -> (B, N - T), (B, T)."""
    others = token_index(other_places(place, window.tokens), grid, window).flatten(1)
    rest = left_over(grid, window, place.device).expand(place.shape[0], -1)
    chosen = token_index(place, grid, window)
    return torch.cat([others, rest], 1).expand(rows, -1), chosen.expand(rows, -1)


@constant
def left_over(grid: Grid, window: Window, device: torch.device) -> Tensor:
    """Numbers of the tokens in no whole cell: () -> (N - T·A,)."""
    rows, columns = window.cells(grid)
    all_tokens = numbers(grid.tokens, device).view(grid.height, grid.width)
    right = all_tokens[: rows * window.height, columns * window.width :].reshape(-1)
    return torch.cat([right, all_tokens[rows * window.height :].reshape(-1)])

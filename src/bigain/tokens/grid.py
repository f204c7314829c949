"""The shape of a token grid, and its division into cells.

Shape alphabet, for the whole library: B batch, N tokens, M groups, C channels, H W grid, T tiles (cells),
A tokens per tile, K keys or classes, R trials, S sources.
"""

from typing import NamedTuple

import torch
from torch import Tensor


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
    rows, columns = window.cells(grid)
    cell = torch.arange(rows * columns, device=place.device).view(-1, *[1] * (place.ndim - 2))
    row = (cell // columns) * window.height + place // window.width
    column = (cell % columns) * window.width + place % window.width
    return row * grid.width + column


def other_places(place: Tensor, tokens: int) -> Tensor:
    """All places of a cell but one, in order: (B, T) -> (B, T, A - 1)."""
    others = torch.arange(tokens - 1, device=place.device)
    return others + (others >= place[..., None])


def left_over(grid: Grid, window: Window, device: torch.device) -> Tensor:
    """Numbers of the tokens in no whole cell: () -> (N - T·A,)."""
    rows, columns = window.cells(grid)
    numbers = torch.arange(grid.tokens, device=device).view(grid.height, grid.width)
    right = numbers[: rows * window.height, columns * window.width :].reshape(-1)
    return torch.cat([right, numbers[rows * window.height :].reshape(-1)])

"""The shape of a token grid, and its division into cells.

Shape alphabet, for the whole library: B batch, N tokens, M groups, C channels, H W grid, T tiles (cells),
A tokens per tile, K keys or classes, R trials, S sources.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bigain.tokens.constants import arange, constant


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
        """The grid of whole cells; rows and columns outside of them are left over."""
        return Grid(grid.height // self.height, grid.width // self.width)

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"


def window_partition(values: Tensor, grid: Grid, window: Window) -> Tensor:
    """Values of whole cells, each cell row by row: (B, N) -> (B, T, A)."""
    rows, columns = window.cells(grid)
    maps = values.view(-1, grid.height, grid.width)
    maps = maps[:, : rows * window.height, : columns * window.width]
    maps = maps.reshape(-1, rows, window.height, columns, window.width)
    return maps.permute(0, 1, 3, 2, 4).reshape(-1, rows * columns, window.tokens)


def token_index(offset: Tensor, grid: Grid, window: Window) -> Tensor:
    """Token numbers of offsets in cells, the cell being the position along the second axis: (B, T, ...) -> same."""
    first = first_tokens(grid, window, offset.device).view(-1, *[1] * (offset.ndim - 2))
    return first + inside(offset, grid, window)


def inside(offset: Tensor, grid: Grid, window: Window) -> Tensor:
    """Distance of an offset from the first token of its cell, in tokens: any shape -> same."""
    return (offset // window.width) * grid.width + offset % window.width


@constant
def first_tokens(grid: Grid, window: Window, device: torch.device) -> Tensor:
    """Number of the first token of each cell: () -> (T,)."""
    cells = window.cells(grid)
    cell = arange(cells.tokens, device)
    return (cell // cells.width) * window.height * grid.width + (cell % cells.width) * window.width


def other_offsets(offset: Tensor, tokens: int) -> Tensor:
    """All offsets of a cell but one, in order: (B, T) -> (B, T, A - 1)."""
    others = arange(tokens - 1, offset.device)
    return others + (others >= offset[..., None])


def split_tokens(offset: Tensor, grid: Grid, window: Window, rows: int) -> tuple[Tensor, Tensor]:
    """Numbers of all other tokens, and of those at `offset` of each cell: (B, T) -> (B, N - T), (B, T)."""
    others = token_index(other_offsets(offset, window.tokens), grid, window).flatten(1)
    rest = left_over(grid, window, offset.device).expand(offset.shape[0], -1)
    chosen = token_index(offset, grid, window)
    return torch.cat([others, rest], 1).expand(rows, -1), chosen.expand(rows, -1)


@constant
def left_over(grid: Grid, window: Window, device: torch.device) -> Tensor:
    """Numbers of the tokens in no whole cell: () -> (N - T·A,)."""
    rows, columns = window.cells(grid)
    all_tokens = arange(grid.tokens, device).view(grid.height, grid.width)
    right = all_tokens[: rows * window.height, columns * window.width :].reshape(-1)
    return torch.cat([right, all_tokens[rows * window.height :].reshape(-1)])

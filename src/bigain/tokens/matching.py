"""Bipartite matching: each source finds its most similar destination; the most similar sources are merged."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bigain.tokens.constants import arange, constant
from bigain.tokens.grid import Grid, Window, inside, split_tokens, token_index
from bigain.tokens.plans import gather_tokens
from bigain.tokens.precision import sum_dtype, widen

EXACT_UP_TO = 4096  # tokens: 512 pixels of Stable Diffusion, the paper's size; docs/performance.md has the costs
BLOCK = 4  # cells along a side of the blocks that `local_match` looks at together


class Match(NamedTuple):
    """For tokens `sources` (B, S): the cosine to, and the number of, their best destination, (B, S) each."""

    sources: Tensor
    value: Tensor
    best: Tensor


def unit(x: Tensor) -> Tensor:
    """Tokens of length one, normalised in float32 at least: (B, N, C) -> same."""
    return F.normalize(widen(x), dim=-1).to(x.dtype)


def safe(x: Tensor) -> Tensor:
    """Tokens whose products with unit tokens stay finite: float16 is normalised first."""
    return unit(x) if x.dtype == torch.float16 else x


def lengths(x: Tensor) -> Tensor:
    """Lengths in float32 at least, never zero: (B, N, C) -> (B, N)."""
    return torch.linalg.vector_norm(x, dim=-1, dtype=sum_dtype(x.dtype)).clamp_min(1e-12)


def exact_match(x: Tensor, offset: Tensor, grid: Grid, window: Window) -> Match:
    """Every source against the destinations of the whole grid, which are at `offset` of each cell.

    (B, N, C), (B, T) -> Match.
    """
    sources, destinations = split_tokens(offset, grid, window, x.shape[0])
    tokens = safe(gather_tokens(x, sources))
    # the length of a source changes nothing in the order of its destinations
    product, position = (tokens @ unit(gather_tokens(x, destinations)).transpose(1, 2)).max(-1)
    return Match(sources, product / lengths(tokens), destinations.gather(1, position))


def local_match(x: Tensor, offset: Tensor, grid: Grid, window: Window) -> Match:
    """Every token against the destinations of its own and the eight surrounding cells: linear time and memory in N.

    (B, N, C), (B, T) -> Match. Blocks of cells are multiplied with all destinations in and around them, and those
    that are not neighbours are masked. Tokens in no whole cell count as cells of their own without a destination;
    destinations are never merged, so their value is minus infinity.
    """
    cells = around(grid, window, x.device)
    candidates = cells.shape[1]
    near_offset = offset.index_select(1, cells.view(-1))
    # not `token_index(offset)` at these cells, which TorchInductor cannot compile
    near = (corners(grid, window, x.device).view(-1) + inside(near_offset, grid, window)).expand(x.shape[0], -1)
    tokens = safe(x)
    length = lengths(tokens)
    product = torch.bmm(
        to_blocks(tokens, grid, window), gather_tokens(tokens, near).view(-1, candidates, x.shape[-1]).transpose(1, 2)
    )
    product = product / length.gather(1, near).view(-1, 1, candidates)
    product, position = product.masked_fill(far(window, x.device), -torch.inf).max(-1)
    best = from_blocks(near.reshape(-1, candidates).gather(1, position), grid, window)
    value = from_blocks(product, grid, window) / length
    destinations = token_index(offset, grid, window).expand(x.shape[0], -1)
    return Match(arange(grid.tokens, x.device).expand(x.shape[0], -1), value.scatter(1, destinations, -torch.inf), best)


def block_shape(grid: Grid, window: Window) -> tuple[Grid, Grid]:
    """How many blocks cover the grid, and how many tokens a block has along each side."""
    height, width = BLOCK * window.height, BLOCK * window.width
    return Grid(-(-grid.height // height), -(-grid.width // width)), Grid(height, width)


def halo(grid: Grid, window: Window, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows and columns of the cells in and next to each block, those outside replaced by the nearest.

    () -> (blocks down, 1, cells, 1), (1, blocks right, 1, cells).
    """
    blocks, _ = block_shape(grid, window)
    cells = window.cells(grid)
    reach = torch.arange(-1, BLOCK + 1, device=device)

    def along(count: int, limit: int) -> Tensor:
        return (torch.arange(count, device=device)[:, None] * BLOCK + reach).clamp(0, limit - 1)

    rows, columns = along(blocks.height, cells.height), along(blocks.width, cells.width)
    return rows[:, None, :, None], columns[None, :, None, :]


@constant
def around(grid: Grid, window: Window, device: torch.device) -> Tensor:
    """Numbers of the cells in and next to each block: () -> (blocks, cells)."""
    rows, columns = halo(grid, window, device)
    return (rows * window.cells(grid).width + columns).flatten(0, 1).flatten(1)


@constant
def corners(grid: Grid, window: Window, device: torch.device) -> Tensor:
    """Their first tokens: () -> (blocks, cells)."""
    rows, columns = halo(grid, window, device)
    return (rows * window.height * grid.width + columns * window.width).flatten(0, 1).flatten(1)


@constant
def far(window: Window, device: torch.device) -> Tensor:
    """Which cells in and next to a block are not neighbours of each of its tokens: () -> (tokens of a block, cells)."""
    reach = torch.arange(-1, BLOCK + 1, device=device)

    def along(side: int) -> Tensor:
        own = torch.arange(BLOCK * side, device=device) // side
        return (own[:, None] - reach).abs() > 1

    rows, columns = along(window.height), along(window.width)
    return (rows[:, None, :, None] | columns[None, :, None, :]).view(BLOCK**2 * window.tokens, -1)


def to_blocks(x: Tensor, grid: Grid, window: Window) -> Tensor:
    """The tokens of each block, row by row, with zeros beyond the grid: (B, N, C) -> (B·blocks, tokens, C)."""
    blocks, side = block_shape(grid, window)
    down, right = blocks.height * side.height - grid.height, blocks.width * side.width - grid.width
    maps = x.view(-1, *grid, x.shape[-1])
    if down or right:
        maps = F.pad(maps, (0, 0, 0, right, 0, down))
    maps = maps.view(-1, blocks.height, side.height, blocks.width, side.width, x.shape[-1])
    return maps.transpose(2, 3).reshape(-1, side.tokens, x.shape[-1])


def from_blocks(values: Tensor, grid: Grid, window: Window) -> Tensor:
    """Numbers of the tokens of each block, back in the order of the grid: (B·blocks, tokens) -> (B, N)."""
    blocks, side = block_shape(grid, window)
    maps = values.view(-1, blocks.height, blocks.width, side.height, side.width).transpose(2, 3)
    maps = maps.reshape(-1, blocks.height * side.height, blocks.width * side.width)
    return maps[:, : grid.height, : grid.width].reshape(-1, grid.tokens)


def auto_match(x: Tensor, offset: Tensor, grid: Grid, window: Window) -> Match:
    """Exact on small grids, local on larger ones: (B, N, C), (B, T) -> Match."""
    return (exact_match if grid.tokens <= EXACT_UP_TO else local_match)(x, offset, grid, window)


MATCHES: dict[str, Callable[[Tensor, Tensor, Grid, Window], Match]] = {
    "auto": auto_match,
    "exact": exact_match,
    "local": local_match,
}


def merge_most_similar(tokens: int, match: Match, removed: int) -> Tensor:
    """The map in which the `removed` sources with the highest value go to their best destination: -> (B, N)."""
    order = match.value.argsort(dim=1, descending=True, stable=True)[:, :removed]
    target = arange(tokens, order.device).expand(order.shape[0], tokens)
    return target.scatter(1, match.sources.gather(1, order), match.best.gather(1, order))

"""Soft plans: each token belongs to several groups by shares, and merging is a matrix product inside tiles."""

from typing import NamedTuple

import torch
from torch import Tensor

from bigain.tokens.constants import arange, constant
from bigain.tokens.grid import Grid, Window, left_over, token_index
from bigain.tokens.plans import Places
from bigain.tokens.precision import sum_dtype, widen
from bigain.tokens.rotary import Rotation


class SoftAssignment(NamedTuple):
    """Every token belongs to the groups of its tile by shares that sum to one; tokens in no whole tile stay alone.

    `share` (B, T, A, G) is the share of a tile's token in each of its groups. A group is the mean of the tile's tokens,
    weighted by their shares, and a token gets back its shares of the groups. `size` (B, M) is the sum of the shares in
    a group, and `keep` (B, M) its destination, which belongs to it alone. With `inverse` (B, T, A, G), tokens come back
    by this map, the pseudo-inverse of merging.
    """

    grid: Grid
    tile: Window
    share: Tensor
    size: Tensor
    keep: Tensor
    inverse: Tensor | None = None
    weighted: bool = False

    def queries(self, x: Tensor) -> Tensor:
        _, tiles, tokens, groups = self.share.shape
        ordered = x.index_select(1, tile_order(self.grid, self.tile, x.device))
        inside, rest = ordered[:, : tiles * tokens], ordered[:, tiles * tokens :]
        total = self._map(self.share, x).transpose(2, 3) @ widen(inside).unflatten(1, (tiles, tokens))
        size = self.size[:, : tiles * groups, None].to(total.dtype)
        return torch.cat([(total.flatten(1, 2) / size).to(x.dtype), rest], 1)

    def context(self, x: Tensor) -> Tensor | None:
        return None

    def key_bias(self, x: Tensor) -> Tensor | None:
        return self.size.to(sum_dtype(x.dtype)).log()[:, None].to(x.dtype) if self.weighted else None

    def places(self, device: torch.device) -> Places:
        """Each group stands where its destination does."""
        return Places(self.keep, self.keep)

    def positions(self, rotation: Rotation) -> tuple[Rotation, Rotation]:
        return self.places(rotation.cos.device).positions(rotation)

    def unmerge(self, y: Tensor) -> Tensor:
        _, tiles, _, groups = self.share.shape
        merged, rest = y[:, : tiles * groups], y[:, tiles * groups :]
        back = self._map(self.share if self.inverse is None else self.inverse, y)
        inside = (back @ widen(merged).unflatten(1, (tiles, groups))).flatten(1, 2)
        return torch.cat([inside.to(y.dtype), rest], 1).index_select(1, tile_places(self.grid, self.tile, y.device))

    def flops(self, channels: int) -> int:
        """FLOPs of merging and unmerging one row."""
        return 4 * self.share[0].numel() * channels

    def _map(self, values: Tensor, x: Tensor) -> Tensor:
        return values.to(sum_dtype(x.dtype))


def soft_assign(similarity: Tensor, destinations: Tensor, temperature: float) -> Tensor:
    """Shares of a tile's tokens: a softmax over destinations, which themselves belong to their own group alone.

    Cosines (B, T, A, A), positions (B, T, G) -> (B, T, A, G).
    """
    groups = destinations.shape[-1]
    towards = similarity.gather(-1, destinations[..., None, :].expand(*similarity.shape[:-1], groups))
    share = (towards / temperature).softmax(-1)
    own = torch.eye(groups, dtype=share.dtype, device=share.device).expand(*destinations.shape, groups)
    return share.scatter(2, destinations[..., None].expand(*destinations.shape, groups), own)


def pseudo_inverse(share: Tensor, size: Tensor) -> Tensor:
    """The pseudo-inverse of merging: (B, T, A, G), (B, T, G) -> (B, T, A, G).

    Merging is D⁻¹ Sᵀ with shares S and sizes D, so this is S (SᵀS)⁻¹ D. SᵀS is at least the identity, because each
    group has a destination of its own.
    """
    # no check: it would wait for the device
    solved, _ = torch.linalg.solve_ex(share.transpose(2, 3) @ share, torch.diag_embed(size))
    return share @ solved


def equal_tiles(grid: Grid, tile: Window) -> Window:
    """Tiles of about this size that leave few tokens over; a grid that is smaller is one tile."""
    height, width = (side // max(1, side // wanted) for side, wanted in zip(grid, tile, strict=True))
    return Window(height, width)


@constant
def tile_order(grid: Grid, tile: Window, device: torch.device) -> Tensor:
    """Numbers of the tokens tile by tile, then those in no whole tile: () -> (N,)."""
    offsets = arange(tile.tokens, device).expand(1, tile.cells(grid).tokens, -1)
    return torch.cat([token_index(offsets, grid, tile).flatten(), left_over(grid, tile, device)])


@constant
def tile_places(grid: Grid, tile: Window, device: torch.device) -> Tensor:
    """Where each token stands in that order: () -> (N,)."""
    return tile_order(grid, tile, device).argsort()

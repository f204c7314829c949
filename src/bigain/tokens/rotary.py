"""Rotary positions of tokens: taken along when tokens are merged or chosen, at the centre where they are pooled."""

from typing import NamedTuple

import torch
from torch import Tensor

from bigain.tokens.constants import constant
from bigain.tokens.grid import Grid


class Rotation(NamedTuple):
    """The angles of a sequence of tokens as cosines and sines, (R, S, D/2); R is 1 where all rows have the same."""

    cos: Tensor
    sin: Tensor

    def take(self, tokens: Tensor) -> "Rotation":
        """The rotations of some tokens of each row: (B, M) -> (B, M, D/2)."""
        return Rotation(*(pick_rows(table, tokens) for table in self))

    def centres(self, grid: Grid, coarse: Grid) -> "Rotation":
        """The rotations of the centres of pooled cells: (R, H·W, D/2) -> (R, h·w, D/2).

        Angles are linear in the position, and each belongs to one axis. So the middle of the two tokens around a centre
        is exact: their rotations are averaged and brought back to length one.
        """
        around = middle_tokens(grid, coarse, self.cos.device)
        cos, sin = (table[:, around].mean(2) for table in self)
        length = torch.sqrt(cos**2 + sin**2)
        return Rotation(cos / length, sin / length)

    def after(self, first: "Rotation | None") -> "Rotation":
        """The rotations of two sequences, one after the other."""
        if first is None:
            return self
        rows = max(self.cos.shape[0], first.cos.shape[0])
        pairs = ((first.cos, self.cos), (first.sin, self.sin))
        return Rotation(*(torch.cat([a.expand(rows, -1, -1), b.expand(rows, -1, -1)], 1) for a, b in pairs))


def pick_rows(table: Tensor, tokens: Tensor) -> Tensor:
    """table[b, tokens[b, i]], or table[0, …] where all rows have the same: (R, S, D), (B, M) -> (B, M, D)."""
    if table.shape[0] == 1:
        return table[0].index_select(0, tokens.reshape(-1)).view(*tokens.shape, -1)
    return table.gather(1, tokens[..., None].expand(-1, -1, table.shape[-1]))


@constant
def middle_tokens(grid: Grid, coarse: Grid, device: torch.device) -> Tensor:
    """The four tokens around the centre of each pooled cell, some of them the same: () -> (h·w, 4)."""

    def along(fine: int, cells: int) -> Tensor:
        number = torch.arange(cells, device=device)
        first, last = number * fine // cells, -(-(number + 1) * fine // cells) - 1  # the cells of adaptive pooling
        return torch.stack([(first + last) // 2, (first + last + 1) // 2], -1)

    rows, columns = along(grid.height, coarse.height), along(grid.width, coarse.width)
    return (rows[:, None, :, None] * grid.width + columns[None, :, None, :]).flatten(0, 1).flatten(1)


def rotate(x: Tensor, rotation: Rotation, dim: int) -> Tensor:
    """Turn neighbouring pairs of channels, in float32: (B, …, D) with the sequence at `dim`, 1 or 2 -> same."""
    cos, sin = (table.unsqueeze(2 if dim == 1 else 1) for table in rotation)
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).to(x.dtype)


def split_rotation(rotation: Rotation, first: int) -> tuple[Rotation, Rotation | None]:
    """The rotations after the first tokens, and those of the first: (R, S, D/2) -> (R, S - F, D/2), (R, F, D/2)."""
    if first == 0:
        return rotation, None
    rest, begin = (Rotation(*(table[:, part] for table in rotation)) for part in (slice(first, None), slice(first)))
    return rest, begin

"""Packed latents (B, N, C): the grid is read from the position of each token."""

import weakref

import torch
from torch import Tensor

from bigain.tokens.constants import constant
from bigain.tokens.grid import Grid

SEEN: dict[int, tuple["weakref.ref[Tensor]", int, Grid]] = {}  # pipelines pass the same positions at each step
AXES = slice(1, 3)  # row and column; the first axis tells images apart


def grid_of_positions(ids: Tensor, tokens: int, model: str) -> Grid:
    """The grid of `tokens` image tokens from their positions (N, 3 or more), or (B, N, 3 or more)."""
    ids = ids[0] if ids.ndim == 3 else ids
    if torch.compiler.is_compiling():
        grid = traced_grid(ids, tokens, model)
        same = ids[-1, AXES] - ids[0, AXES] == ids.new_tensor([grid.height - 1, grid.width - 1])
        torch._assert_async(same.all(), "img_ids of another shape than the model was compiled for; compile it again")
        return grid
    return read_grid(ids, tokens, model)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def traced_grid(ids: Tensor, tokens: int, model: str) -> Grid:
    """A graph has one grid; what it is given later is compared with it."""
    return read_grid(ids, tokens, model)


def read_grid(ids: Tensor, tokens: int, model: str) -> Grid:
    version = None if ids.is_inference() else ids._version  # what changes unseen is read each time
    known = SEEN.get(id(ids))
    if known is not None and known[0]() is ids and known[1] == version:
        return known[2]
    rows = ids.detach().long().tolist()
    first, last = rows[0], rows[-1]
    grid = Grid(last[1] - first[1] + 1, last[2] - first[2] + 1)
    expected = [[first[1] + row, first[2] + column] for row in range(grid.height) for column in range(grid.width)]
    if len(rows) != tokens or [row[AXES] for row in rows] != expected or any(row[0] != first[0] for row in rows):
        raise ValueError(
            f"{model} got {tokens} image tokens whose img_ids are not the rows and columns of one grid; reference "
            "images beside the generated one (Kontext, editing) cannot be compressed"
        )
    if len(SEEN) >= 64:
        SEEN.clear()
    if version is not None:
        SEEN[id(ids)] = weakref.ref(ids), version, grid
    return grid


@constant
def positions(height: int, width: int, axes: int = 3, device: torch.device | None = None) -> Tensor:
    """Row and column of each token, behind a number that is 0, as pipelines make them; the same tensor each time.

    () -> (H W, axes), by default on the CPU, so that models without weights can read them.
    """
    found = torch.zeros(height, width, axes, device=device or torch.device("cpu"))
    found[..., 1] += torch.arange(height, device=found.device)[:, None]
    found[..., 2] += torch.arange(width, device=found.device)
    return found.view(-1, axes)

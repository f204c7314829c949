"""Rows of one batch that need different treatment: taken apart before a module, and put together after it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bigain.compression.entry import MASK, TEXT
from bigain.compression.joint import TEXT_MASK


def take_rows(kwargs: dict[str, Any], rows: Tensor, batch: int) -> dict[str, Any]:
    """Arguments of an attention or MLP for some rows of the batch; rotary positions are those of all rows."""
    return {
        name: taken(value, rows, batch) if name in (TEXT, MASK, TEXT_MASK) else value for name, value in kwargs.items()
    }


def taken(value: Any, rows: Tensor, batch: int) -> Any:
    """(B, ...) -> (M, ...), also inside tuples and lists, as an IP-Adapter passes its images."""
    if isinstance(value, tuple | list):
        return type(value)(taken(part, rows, batch) for part in value)
    alike = isinstance(value, Tensor) and value.ndim > 0 and value.shape[0] == batch
    return value.index_select(0, rows) if alike else value


def join_rows(parts: Sequence[tuple[Tensor, Any]]) -> Any:
    """Outputs of some rows each, with the numbers of these rows: (M, ...) each -> (B, ...); tuples part by part."""
    if isinstance(parts[0][1], tuple):
        count = len(parts[0][1])
        return tuple(join_rows([(rows, output[i]) for rows, output in parts]) for i in range(count))
    order = torch.cat([rows for rows, _ in parts]).argsort()
    return torch.cat([output for _, output in parts]).index_select(0, order)

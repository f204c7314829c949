"""The dtype of sums: float32 at least, so that half precision does not round, and float64 for float64 tokens."""

import torch
from torch import Tensor


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def widen(x: Tensor) -> Tensor:
    """Half types as float32, the others as they are: any shape -> same."""
    return x.to(sum_dtype(x.dtype))

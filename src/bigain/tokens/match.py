"""Bipartite matching: each source finds its most similar destination; the most similar sources are merged."""

import torch
from torch import Tensor
from torch.nn import functional as F

from bigain.tokens.plan import take_rows


def unit(x: Tensor) -> Tensor:
    """Tokens of length one; the length is taken in float32. (B, N, C) -> same."""
    return F.normalize(x.float(), dim=-1).to(x.dtype)


def best_match(x: Tensor, sources: Tensor, destinations: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine to, and token number of, each source's best destination.

    (B, N, C), (B, S), (B, T) -> (B, S), (B, S).
    """
    similarity = unit(take_rows(x, sources)) @ unit(take_rows(x, destinations)).transpose(1, 2)
    value, position = similarity.max(-1)
    return value, destinations.gather(1, position)


def merge_most_similar(tokens: int, sources: Tensor, value: Tensor, best: Tensor, removed: int) -> Tensor:
    """The map in which the `removed` sources with the highest value go to their best destination: -> (B, N)."""
    order = value.argsort(dim=1, descending=True, stable=True)[:, :removed]
    target = torch.arange(tokens, device=sources.device).expand(len(sources), tokens)
    return target.scatter(1, sources.gather(1, order), best.gather(1, order))

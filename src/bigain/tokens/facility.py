"""Facility location: the tokens of a tile that together stand nearest to all of its tokens."""

import torch
from torch import Tensor

TIE = 1e-5


def facility_locations(similarity: Tensor, count: int) -> Tensor:
    """Positions in each tile, in order: cosines (B, T, A, A) -> (B, T, count).

    Greedy, one position a step for all tiles at once: the one that raises the sum over tokens of the cosine to their
    nearest chosen token most, the first of several. The sum is submodular, so that it reaches at least 1 - 1/e of what
    any choice does, counted from the -1 that a cosine is at least. Two tokens that are nearest to each other raise it
    alike: what is within `TIE` for each token counts as equal, or rounding would choose.
    """
    tie = TIE * similarity.shape[-1]
    best = similarity.new_full(similarity.shape[:-1], -1)
    chosen = torch.zeros_like(best, dtype=torch.bool)
    picks = []
    for _ in range(count):
        gain = (similarity - best[..., None]).relu().sum(-2)
        gain = gain.masked_fill(chosen, -1)
        pick = (gain >= gain.amax(-1, keepdim=True) - tie).int().argmax(-1, keepdim=True)
        chosen = chosen.scatter(-1, pick, True)
        reached = similarity.gather(-1, pick[..., None, :].expand(*similarity.shape[:-1], 1)).squeeze(-1)
        best = torch.maximum(best, reached)
        picks.append(pick)
    return torch.cat(picks, -1).sort(-1).values

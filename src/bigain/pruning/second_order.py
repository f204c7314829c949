"""Second-order removal: columns of linear layers go, the others make up for them (optimal brain surgeon).

For y = W x and H = X'X of its inputs, removing the columns m of W costs at least tr W_m ((H^-1)_mm)^-1 W_m' in squared
error of y on X, and the least is reached by W - W_m ((H^-1)_mm)^-1 (H^-1)_m. Columns go one group after the other, the
cheapest first.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Layer(NamedTuple):
    """A linear layer's weight (O, C) and the second moment of its inputs (C, C)."""

    weight: Tensor
    moment: Tensor


class Removal(NamedTuple):
    """The groups that are kept, (K,), and for each layer its weight on their columns, (O, K · size)."""

    kept: Tensor
    weights: tuple[Tensor, ...]


def remove(layers: Sequence[Layer], size: int, count: int, damping: float = 0.01) -> Removal:
    """Remove `count` groups of `size` neighbouring columns, the same ones from layers with inputs in common.

    `damping` times the mean of its diagonal is added to each H, so that rare inputs do not decide.
    """
    damped = [Layer(layer.weight.double(), damp(layer.moment.double(), damping)) for layer in layers]
    parts = [(layer.weight.clone(), torch.linalg.inv(layer.moment)) for layer in damped]
    groups = damped[0].weight.shape[1] // size
    alive = torch.ones(groups, dtype=torch.bool, device=damped[0].weight.device)
    for _ in range(count):
        saliency = sum(saliencies(weight, inverse, size) for weight, inverse in parts)
        group = int(torch.where(alive, saliency, torch.inf).argmin())
        alive[group] = False
        parts = [eliminate(weight, inverse, slice(group * size, (group + 1) * size)) for weight, inverse in parts]
    kept = alive.nonzero().flatten()
    columns = columns_of(kept, size)
    return Removal(kept, tuple(compensated(layer, columns) for layer in damped))


def damp(moment: Tensor, damping: float) -> Tensor:
    """H + damping · mean(diag H) · I; inputs that are all zero count as one."""
    mean = moment.diagonal().mean()
    ridge = torch.where(mean > 0, damping * mean, torch.ones_like(mean))
    return moment + ridge * torch.eye(len(moment), dtype=moment.dtype, device=moment.device)


def saliencies(weight: Tensor, inverse: Tensor, size: int) -> Tensor:
    """What removing each group would cost: (O, G · s), (G · s, G · s) -> (G,)."""
    if size == 1:
        return weight.square().sum(0) / inverse.diagonal()
    groups = weight.shape[1] // size
    blocks = inverse.reshape(groups, size, groups, size).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    own = weight.reshape(-1, groups, size).transpose(0, 1)
    return (torch.linalg.solve(blocks, own.transpose(1, 2)) * own.transpose(1, 2)).sum((1, 2))


def eliminate(weight: Tensor, inverse: Tensor, group: slice) -> tuple[Tensor, Tensor]:
    """The weight and the inverse without some columns, which stay in place as those of the identity."""
    step = torch.linalg.solve(inverse[group, group], inverse[group])
    weight = weight - weight[:, group] @ step
    inverse = inverse - inverse[:, group] @ step
    weight[:, group], inverse[group], inverse[:, group] = 0, 0, 0
    inverse[group, group] = torch.eye(group.stop - group.start, dtype=inverse.dtype, device=inverse.device)
    return weight, inverse


def columns_of(kept: Tensor, size: int) -> Tensor:
    """Groups as columns: (K,) -> (K · size,)."""
    return (kept[:, None] * size + torch.arange(size, device=kept.device)).flatten()


def compensated(layer: Layer, columns: Tensor) -> Tensor:
    """The weight on these columns alone that comes nearest to the layer's output: -> (O, K).

    It is what the steps above lead to, without their rounding.
    """
    if len(columns) == layer.weight.shape[1]:
        return layer.weight
    across = layer.weight @ layer.moment[:, columns]
    return torch.linalg.solve(layer.moment[columns][:, columns], across.T).T

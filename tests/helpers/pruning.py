"""Prunings of tiny models without calibration, and masked models as their slow reference."""

import copy
from typing import Any

import torch

from bigain.models.family import family_of
from bigain.pruning import GateScores, Mosaic, Pruned
from bigain.pruning.parts import Prunable, prunable
from bigain.pruning.second_order import Layer, Removal, columns_of, remove
from bigain.pruning.status import site_cost
from bigain.pruning.trajectory import Stage, Stages

STAGES = Stages((Stage(0, 300, 0.2), Stage(300, 700, 0.9), Stage(700, 1000, 0.1)))
SHARES = (0.3, 0.0, 0.5)  # that go in each stage


def some_pruning(model: Any, shares: tuple[float, ...] = SHARES) -> Pruned:
    """A share of all heads and channels goes in each stage, by moments of random inputs."""
    generator = torch.Generator().manual_seed(5)
    cuts = {}
    for part in prunable(family_of(model).sites(model)):
        cuts[part.site.name] = tuple(removal(part, share, generator) for share in shares)
    return Pruned(Mosaic(sparsity=0.3), STAGES, cuts, text_tokens=7)


def removal(part: Prunable, share: float, generator: torch.Generator) -> Removal | None:
    if not share:
        return None
    layers = []
    for name in part.last:
        weight = part.site.module.get_submodule(name).weight.detach()
        x = torch.randn(300, weight.shape[1], generator=generator)
        layers.append(Layer(weight, x.T @ x))
    return remove(layers, part.size, max(1, round(share * part.groups)))


def masked(model: Any, pruned: Pruned, stage: int) -> Any:
    """The whole model with zeros where pruning takes columns away, and the weights that make up for them."""
    found = copy.deepcopy(model)
    for part in prunable(family_of(found).sites(found)):
        cut = pruned.cuts[part.site.name][stage]
        if cut is None:
            continue
        columns = columns_of(cut.kept, part.size)
        for name, weight in zip(part.last, cut.weights, strict=True):
            own = part.site.module.get_submodule(name).weight.data
            own.zero_()
            own[:, columns] = weight.to(own.dtype)
    return found


def scores_of(network: Any, steps: tuple[float, ...], seed: int = 0) -> GateScores:
    """Random scores of all sites of a model."""
    sites = family_of(network).sites(network)
    drawn = torch.rand(len(steps), len(sites), generator=torch.Generator().manual_seed(seed))
    names = tuple(site.name for site in sites)
    flops = tuple(site_cost(site, 7) for site in sites)
    return GateScores(type(network).__name__, steps, names, flops, tuple(map(tuple, drawn.tolist())))

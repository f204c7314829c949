"""An operator in a file of its own; also: bigain --load own_operator.py generate --operator "every_row(step=2)"."""
# ruff: noqa: T201

from dataclasses import dataclass

import torch

import bigain
from bigain.operators import OPERATORS
from bigain.tokens.plans import Selected


@OPERATORS.register("every_row")
@dataclass(frozen=True)
class EveryRow:
    """Keys and values from every `step`-th row of the grid."""

    data_dependent = stochastic = reduces_queries = False  # no tokens, no draw, all queries stay
    step: int = 2

    def plan(self, x, call):
        rows = torch.arange(call.grid.tokens, device=x.device).view(*call.grid)[:: self.step]
        return Selected(rows.flatten().expand(x.shape[0], -1))


if __name__ == "__main__":
    denoiser = bigain.load("fashion-unet")
    classifier = bigain.DiffusionClassifier(denoiser, denoiser.classes, "exhaustive(2)")
    with bigain.compress(denoiser, "every_row(step=2)") as handle:
        print(classifier([torch.zeros(1, 32, 32)])[0], handle.status(), sep="\n")

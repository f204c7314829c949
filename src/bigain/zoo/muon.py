"""Muon (Jordan et al., 2024): momentum with orthogonalised matrices, so that all directions learn equally fast."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic that Jordan et al. tuned; singular values end near 1


def orthogonal(matrix: Tensor, steps: int = 5) -> Tensor:
    """Singular values near one, singular vectors kept, by Newton-Schulz iterations: (m, n) -> (m, n)."""
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonal(matrix.T, steps).T
    a, b, c = COEFFICIENTS
    found = matrix / (matrix.norm() + 1e-7)
    for _ in range(steps):
        square = found @ found.T
        found = a * found + (b * square + c * square @ square) @ found
    return found


class Muon(torch.optim.Optimizer):
    """For matrices, and convolutions as matrices (outputs, inputs); torch's own takes no convolutions.

    Steps are as large as AdamW's usually are at the same rate: 0.2 of it, root mean square.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override] # no closures, which nobody here needs
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["mean"] = torch.zeros_like(parameter)
        mean = state["mean"].lerp_(gradient, 1 - group["momentum"])
        turned = orthogonal(gradient.lerp(mean, group["momentum"]).flatten(1))
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(turned.view_as(parameter), alpha=-0.2 * group["lr"] * max(turned.shape) ** 0.5)

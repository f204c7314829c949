"""Muon beside the singular values that it is about."""

import pytest
import torch

from bigain.zoo.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(8, 8), (5, 40), (40, 5)])
def test_orthogonal_keeps_singular_vectors_and_evens_out_values(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    turned = u.T @ orthogonal(matrix) @ v.T
    values = turned.diagonal()
    torch.testing.assert_close(turned, torch.diag(values), atol=1e-9, rtol=0)
    assert 0.5 < values.min() <= values.max() < 1.3


@pytest.mark.parametrize("shape", [(16, 16), (16, 4, 3, 3)])
def test_a_step_goes_downhill_by_a_fifth_of_the_rate(shape: tuple[int, ...]) -> None:
    weight = torch.nn.Parameter(torch.zeros(shape))
    gradient = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    weight.grad = gradient.clone()
    Muon([weight], lr=0.1).step()
    assert (weight.detach() * gradient).sum() < 0
    assert weight.detach().square().mean().sqrt() == pytest.approx(0.2 * 0.1, rel=0.3)


def test_weights_decay_and_those_without_gradient_stay() -> None:
    decayed, idle = (torch.nn.Parameter(torch.ones(4, 4)) for _ in range(2))
    decayed.grad = torch.zeros(4, 4)
    Muon([decayed, idle], lr=0.1, weight_decay=0.5).step()
    torch.testing.assert_close(decayed.detach(), torch.full((4, 4), 0.95))
    torch.testing.assert_close(idle.detach(), torch.ones(4, 4))


def test_matrices_go_as_with_torch_s_own() -> None:
    """Which computes in bfloat16, hence the tolerance; ours also takes convolutions."""
    generator = torch.Generator().manual_seed(2)
    start, gradients = torch.randn((12, 30), generator=generator), torch.randn((5, 12, 30), generator=generator)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimisers = (
        Muon([ours], lr=0.1, weight_decay=0.1),
        torch.optim.Muon([theirs], lr=0.1, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    )
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        for optimiser in optimisers:
            optimiser.step()
    moved = (ours - start).detach()
    assert (ours - theirs).detach().norm() < 0.02 * moved.norm()

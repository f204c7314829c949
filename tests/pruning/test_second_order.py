"""Removal against least squares on the same inputs, and against the formulas step by step."""

import pytest
import torch
from torch import Tensor

from bigain.pruning.second_order import Layer, remove

SIZES = [1, 3]


def problem(size: int, seed: int = 0, groups: int = 6, outputs: int = 5) -> tuple[Tensor, Tensor]:
    """Inputs (n, C) with strong correlations, and a weight (O, C)."""
    generator = torch.Generator().manual_seed(seed)
    width = groups * size
    mixed = torch.randn(width, width, generator=generator, dtype=torch.float64)
    x = torch.randn(200, width, generator=generator, dtype=torch.float64) @ (torch.eye(width) + 0.5 * mixed)
    return x, torch.randn(outputs, width, generator=generator, dtype=torch.float64)


def least_squares(x: Tensor, weight: Tensor, columns: list[int]) -> tuple[Tensor, float]:
    """The weight on some columns that comes nearest to all of them on these inputs, and its squared error."""
    found = torch.linalg.lstsq(x[:, columns], x @ weight.T).solution.T
    return found, float((x[:, columns] @ found.T - x @ weight.T).square().sum())


@pytest.mark.parametrize("size", SIZES)
def test_what_stays_is_the_least_squares_solution(size):
    x, weight = problem(size)
    removal = remove([Layer(weight, x.T @ x)], size, 3, damping=0)
    assert len(removal.kept) == 3
    columns = [int(group) * size + i for group in removal.kept for i in range(size)]
    torch.testing.assert_close(removal.weights[0], least_squares(x, weight, columns)[0])


@pytest.mark.parametrize("size", SIZES)
def test_the_cheapest_group_goes_first_each_time(size):
    """Brute force: of all groups that are left, the one whose loss costs least after the others made up for it."""
    x, weight = problem(size, seed=1)
    kept = list(range(6))
    for count in range(1, 5):
        errors = {group: least_squares(x, weight, of_groups(kept, size, group))[1] for group in kept}
        kept.remove(min(errors, key=errors.__getitem__))
        assert remove([Layer(weight, x.T @ x)], size, count, damping=0).kept.tolist() == kept


def of_groups(kept: list[int], size: int, without: int) -> list[int]:
    return [group * size + i for group in kept if group != without for i in range(size)]


@pytest.mark.parametrize("size", SIZES)
def test_the_formulas_step_by_step_lead_to_the_same_weight(size):
    """W - W_m ((H^-1)_mm)^-1 (H^-1)_m for one group after the other, with H of what is left inverted anew."""
    x, weight = problem(size, seed=2)
    moment = x.T @ x
    kept, current = list(range(6)), weight.clone()
    for _ in range(3):
        columns = [group * size + i for group in kept for i in range(size)]
        inverse = torch.linalg.inv(moment[columns][:, columns])
        costs, steps = {}, {}
        for place, group in enumerate(kept):
            m = slice(place * size, (place + 1) * size)
            middle = torch.linalg.inv(inverse[m, m])
            costs[group] = float(torch.trace(current[:, m] @ middle @ current[:, m].T))
            steps[group] = current - current[:, m] @ middle @ inverse[m]
        gone = min(costs, key=costs.__getitem__)
        place = kept.index(gone)
        left = [i for i in range(len(columns)) if not place * size <= i < (place + 1) * size]
        assert steps[gone][:, place * size : (place + 1) * size].abs().max() < 1e-9
        current = steps[gone][:, left]
        kept.remove(gone)
    removal = remove([Layer(weight, moment)], size, 3, damping=0)
    assert removal.kept.tolist() == kept
    torch.testing.assert_close(removal.weights[0], current)


def test_layers_with_inputs_in_common_lose_the_same_groups():
    x, first = problem(2, seed=3)
    y, second = problem(2, seed=4)
    both = remove([Layer(first, x.T @ x), Layer(second, y.T @ y)], 2, 2, damping=0)
    errors = {
        group: sum(least_squares(a, w, of_groups(list(range(6)), 2, group))[1] for a, w in ((x, first), (y, second)))
        for group in range(6)
    }
    assert min(errors, key=errors.__getitem__) not in both.kept.tolist()
    for inputs, weight, found in ((x, first, both.weights[0]), (y, second, both.weights[1])):
        columns = [int(group) * 2 + i for group in both.kept for i in range(2)]
        torch.testing.assert_close(found, least_squares(inputs, weight, columns)[0])


def test_channels_that_are_never_used_cost_nothing():
    x, weight = problem(1)
    x[:, [1, 4]] = 0
    removal = remove([Layer(weight, x.T @ x)], 1, 2)
    assert removal.kept.tolist() == [0, 2, 3, 5]
    torch.testing.assert_close(removal.weights[0], weight[:, [0, 2, 3, 5]])


def test_nothing_removed_is_the_weight_itself():
    x, weight = problem(3)
    assert torch.equal(remove([Layer(weight, x.T @ x)], 3, 0).weights[0], weight)

"""float64 tokens stay float64, with every operator and every scorer; sums of them are not rounded to float32."""

import pytest
import torch

from bigain.operators import GatedMerge, KVSelect, parse
from bigain.tokens.grid import Grid
from bigain.tokens.scores import SCORERS
from helpers.operator_examples import GRIDS, SPECS, call, outputs, tokens

GRID = Grid(6, 8)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("text", SPECS)
def test_every_operator(text, grid):
    x, operator = tokens(grid), parse(text)
    single, double = (outputs(operator.plan(y, call(grid)), y) for y in (x, x.double()))
    for a, b in zip(single, double, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert b.dtype == torch.float64
            torch.testing.assert_close(a.double(), b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer(name):
    x = tokens(GRID, channels=8)
    single, double = SCORERS[name](x, GRID), SCORERS[name](x.double(), GRID)
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("make", [lambda name: GatedMerge(0.5, scorer=name), lambda name: KVSelect(0.5, scorer=name)])
def test_every_scorer_in_an_operator(name, make):
    x = tokens(GRID).double()
    plan = make(name).plan(x, call(GRID))
    assert all(part is None or part.dtype == torch.float64 for part in outputs(plan, x))


def test_means_are_not_rounded_to_float32():
    x = tokens(GRID).double() + 1e-9 * torch.rand(3, GRID.tokens, 5, dtype=torch.float64)
    plan = GatedMerge(0.5).plan(x, call(GRID))
    for row in range(len(x)):
        for group in range(plan.size.shape[1]):
            wanted = x[row, plan.group[row] == group].mean(0)
            torch.testing.assert_close(plan.queries(x)[row, group], wanted, atol=1e-14, rtol=1e-14)

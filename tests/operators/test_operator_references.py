"""Every operator against its slow and obvious version."""

import pytest
import torch

from bigain.operators import (
    OPERATORS,
    AvgPool,
    BlockMerge,
    GatedMerge,
    KVDownsample,
    KVSelect,
    SiTo,
    ToDo,
    ToMe,
)  # fmt: skip
from bigain.tokens.draws import draw_bits, draw_normal
from bigain.tokens.grid import Grid
from bigain.tokens.scores import SCORERS
from helpers import references
from helpers.operator_examples import GRIDS, call, tokens

RATIOS = [0.0, 0.1, 0.3, 0.5, 0.7, 0.75]
WINDOWS = [2, 3, (1, 2)]
SETTINGS = [(ratio, window) for window in WINDOWS for ratio in RATIOS if window != (1, 2) or ratio <= 0.5]

every_grid = pytest.mark.parametrize("grid", GRIDS, ids=str)
every_setting = pytest.mark.parametrize(("ratio", "window"), SETTINGS)


def check_merge(operator, x, where, expected):
    plan = operator.plan(x, where)
    merged = plan.queries(x)
    torch.testing.assert_close(merged.double(), expected.tokens, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(plan.unmerge(merged).double(), expected.restored, rtol=1e-5, atol=1e-5)


def check_context(operator, x, where, expected):
    plan = operator.plan(x, where)
    torch.testing.assert_close(plan.context(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_every_operator_has_a_reference():
    twins = {"todo": "kv_downsample", "avg_pool": "kv_downsample"}
    assert all(callable(getattr(references, twins.get(name, name), None)) for name in OPERATORS)


@every_grid
@every_setting
@pytest.mark.parametrize("anchor", ["lowest", "highest", "row_order"])
def test_gated_merge(anchor, ratio, window, grid):
    x = tokens(grid, rows=2, seed=1)
    expected = references.gated_merge(x, grid, ratio, window, anchor=anchor)
    check_merge(GatedMerge(ratio, window, anchor=anchor), x, call(grid, rows=2), expected)


@pytest.mark.parametrize("scorer", SCORERS)
def test_gated_merge_by_every_score(scorer):
    grid = Grid(7, 8)
    x = tokens(grid, rows=3, seed=2)
    expected = references.gated_merge(x, grid, 0.6, 2, scorer)
    check_merge(GatedMerge(0.6, scorer=scorer), x, call(grid), expected)


@every_grid
@every_setting
@pytest.mark.parametrize("tile", ["max", "mean", "min"])
def test_block_merge(tile, ratio, window, grid):
    size = window**2 if isinstance(window, int) else 2
    if int(grid.tokens * ratio) // (size - 1) > len(references.cells(*grid, window)):
        with pytest.raises(ValueError, match="the largest ratio there is"):
            BlockMerge(ratio, window, tile=tile).plan(tokens(grid), call(grid))
        return
    x = tokens(grid, rows=2, seed=3)
    expected = references.block_merge(x, grid, ratio, window, tile=tile)
    check_merge(BlockMerge(ratio, window, tile=tile), x, call(grid, rows=2), expected)


@pytest.mark.parametrize("scorer", SCORERS)
def test_block_merge_by_every_score(scorer):
    grid = Grid(7, 8)
    x = tokens(grid, rows=3, seed=4)
    expected = references.block_merge(x, grid, 0.5, 2, scorer)
    check_merge(BlockMerge(0.5, scorer=scorer), x, call(grid), expected)


@every_grid
@every_setting
@pytest.mark.parametrize("pattern", ["per_call", "fixed", "corner"])
def test_tome(pattern, ratio, window, grid):
    x = tokens(grid, rows=2, seed=5)
    count = len(references.cells(*grid, window))
    size = window**2 if isinstance(window, int) else 2
    draw, site = (4, 2) if pattern == "per_call" else (0, 0)
    places = (draw_bits(9, torch.tensor(draw), site, count) % size).tolist()
    places = [0] * count if pattern == "corner" else places
    expected = references.tome(x, grid, ratio, window, places)
    operator = ToMe(ratio, window, pattern=pattern, seed=9)
    check_merge(operator, x, call(grid, rows=2, draw=4, site=2), expected)


@every_grid
@every_setting
@pytest.mark.parametrize("noise", [0, 0.1, 3.0])
def test_sito(noise, ratio, window, grid):
    x = tokens(grid, rows=2, channels=4, seed=6)
    drawn = noise * draw_normal(7, torch.tensor(2), 3, grid.tokens).double()
    expected = references.sito(x, grid, ratio, window, drawn.tolist())
    operator = SiTo(ratio, noise, seed=7, window=window)
    check_merge(operator, x, call(grid, rows=2, draw=2, site=3), expected)


@pytest.mark.parametrize("grid", [*GRIDS, Grid(8, 8), Grid(5, 13)], ids=str)
@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("alpha", [0.9, 0.0, 1.0, 0.1, 1.2, -0.5, 1, (0.8, 1.2), (1, 0)], ids=str)
def test_kv_downsample(alpha, factor, grid):
    x, where = tokens(grid, seed=7), call(grid)
    expected = references.kv_downsample(x, grid, factor, alpha, where.t)
    check_context(KVDownsample(factor, alpha), x, where, expected)


@pytest.mark.parametrize("grid", [*GRIDS, Grid(8, 8), Grid(5, 13)], ids=str)
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_todo_and_average_are_the_two_ends(factor, grid):
    x, where = tokens(grid, seed=8), call(grid)
    check_context(ToDo(factor), x, where, references.kv_downsample(x, grid, factor, 1.0))
    check_context(AvgPool(factor), x, where, references.kv_downsample(x, grid, factor, 0.0))
    assert torch.equal(ToDo(factor).plan(x, where).context(x), KVDownsample(factor, 1.0).plan(x, where).context(x))


def test_todo_by_two_takes_the_bottom_right_of_each_cell():
    grid = Grid(4, 6)
    x = torch.arange(24.0).view(1, 24, 1)
    context = ToDo(2).plan(x, call(grid, rows=1)).context(x)
    assert context.flatten().tolist() == [7, 9, 11, 19, 21, 23]


@every_grid
@pytest.mark.parametrize("keep", [0.001, 0.1, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("prefer", ["smooth", "detail"])
def test_kv_select(prefer, keep, grid):
    x = tokens(grid, seed=9)
    expected = references.kv_select(x, grid, keep, prefer)
    check_context(KVSelect(keep, prefer), x, call(grid), expected)


@pytest.mark.parametrize("prefer", ["smooth", "detail"])
@pytest.mark.parametrize("scorer", SCORERS)
def test_kv_select_by_every_score(scorer, prefer):
    grid = Grid(7, 8)
    x = tokens(grid, seed=10)
    expected = references.kv_select(x, grid, 0.4, prefer, scorer)
    check_context(KVSelect(0.4, prefer, scorer), x, call(grid), expected)


@pytest.mark.parametrize("grid", [Grid(4, 4), Grid(6, 8), Grid(8, 8), Grid(10, 6)], ids=str)
@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.7, 0.75])
def test_tome_corner_agrees_with_tomesd(ratio, grid):
    tomesd_merge = pytest.importorskip("tomesd").merge
    x = tokens(grid, rows=2, seed=11)
    removed = int(grid.tokens * ratio)
    merge, unmerge = tomesd_merge.bipartite_soft_matching_random2d(
        x, grid.width, grid.height, 2, 2, removed, no_rand=True
    )
    plan = ToMe(ratio, pattern="corner").plan(x, call(grid, rows=2))
    torch.testing.assert_close(plan.unmerge(plan.queries(x)), unmerge(merge(x)))

"""Which token of a cell the others are merged into."""

import pytest
import torch

from bigain.operators import GatedMerge, KVDownsample, SiTo, ToMe
from bigain.tokens.draws import branch, draw_bits
from bigain.tokens.grid import Grid
from bigain.tokens.scores import SCORERS
from helpers import references
from helpers.operator_examples import call, tokens

LENGTHS = torch.tensor(
    [
        *(0.9, 0.3, 0.7, 0.1),
        *(0.5, 0.2, 0.8, 0.4),
        *(0.6, 0.35, 0.15, 0.75),
        *(0.55, 0.05, 0.85, 0.25),
    ]
)


def marked_tokens(sizes, first):
    """Tokens with an own direction each, of which all are nearest to the `first`: (N,) -> (1, N, N)."""
    tokens = torch.eye(len(sizes))
    tokens[:, first] += 0.5
    return (tokens * sizes[:, None])[None]


def assert_destinations(operator, sizes, grid, expected, where=None):
    """Merged as far as it goes, one destination takes in all sources and the others stay alone."""
    for first in expected:
        plan = operator.plan(marked_tokens(sizes, first), where or call(grid, rows=1))
        group, size = plan.group[0], plan.size[0]
        alone = [token for token in range(grid.tokens) if size[group[token]] == 1]
        assert alone == sorted(set(expected) - {first})
        assert size[group[first]] == grid.tokens - len(expected) + 1


@pytest.mark.parametrize("anchor", ["lowest", "highest", "row_order"])
def test_destinations_by_length(anchor):
    grid = Grid(4, 4)
    expected = references.anchors(LENGTHS.tolist(), *grid, 2, anchor)
    assert_destinations(GatedMerge(0.75, scorer="l1_norm", anchor=anchor), LENGTHS, grid, expected)


def test_lowest_is_the_minimum_of_each_cell():
    grid = Grid(4, 4)
    assert_destinations(GatedMerge(0.75, scorer="l1_norm"), LENGTHS, grid, [5, 3, 13, 10])


def test_row_order_writes_the_minimum_of_a_row_into_a_cell():
    # the rows have their minima in columns 3, 1, 2 and 1; these are places in the four cells
    grid = Grid(4, 4)
    operator = GatedMerge(0.75, scorer="l1_norm", anchor="row_order")
    assert_destinations(operator, LENGTHS, grid, [5, 3, 12, 11])


def test_row_order_is_close_to_chance():
    grid = Grid(64, 64)
    smooth = torch.nn.functional.avg_pool2d(
        tokens(Grid(66, 66), rows=1, channels=4).view(1, 66, 66, 4).permute(0, 3, 1, 2), 3, 1
    )
    x = smooth.flatten(2).transpose(1, 2)
    scores = SCORERS["laplacian_l1"](x, grid)[0].tolist()
    true = references.anchors(scores, *grid, 2, "lowest")
    released = references.anchors(scores, *grid, 2, "row_order")
    hits = sum(a == b for a, b in zip(true, released, strict=True)) / len(true)
    assert 0.2 < hits < 0.33


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("ratio", [0.3, 0.75])
def test_cell_minima_are_never_merged_with_each_other(scorer, ratio):
    grid = Grid(8, 8)
    x = tokens(grid)
    plan = GatedMerge(ratio, scorer=scorer).plan(x, call(grid))
    for row, scores in enumerate(SCORERS[scorer](x, grid).tolist()):
        minima = references.anchors(scores, *grid, 2, "lowest")
        assert len(plan.group[row, minima].unique()) == len(minima) == 16


def test_corner_is_the_top_left():
    grid = Grid(4, 6)
    sizes = torch.ones(24)
    destinations = [0, 2, 4, 12, 14, 16]
    assert_destinations(ToMe(0.75, pattern="corner"), sizes, grid, destinations)


@pytest.mark.parametrize(("pattern", "draw", "site"), [("per_call", 6, 3), ("fixed", 0, 0)])
def test_drawn_destinations_are_those_of_the_hash(pattern, draw, site):
    grid = Grid(4, 6)
    places = draw_bits(2, torch.tensor(draw), site, 6) % 4
    expected = [cell[place] for cell, place in zip(references.cells(4, 6, 2), places, strict=True)]
    where = call(grid, rows=1, draw=6, site=3)
    assert_destinations(ToMe(0.75, pattern=pattern, seed=2), torch.ones(24), grid, expected, where)


def groups(operator, draw=0, site=0):
    grid = Grid(8, 8)
    return operator.plan(tokens(grid), call(grid, draw=draw, site=site)).group


def test_shared_pattern_is_the_same_for_any_draw_and_site():
    operator = ToMe(0.5, pattern="fixed", seed=1)
    assert not operator.stochastic
    for draw, site in [(0, 0), (1, 0), (10**6, 0), (0, 7), (3, 3)]:
        assert torch.equal(groups(operator, draw, site), groups(operator))


def test_random_pattern_differs_between_draws_sites_and_seeds_and_repeats():
    operator = ToMe(0.5)
    assert operator.stochastic
    drawn = [groups(operator), groups(operator, draw=1), groups(operator, site=1), groups(ToMe(0.5, seed=1))]
    for number, first in enumerate(drawn):
        assert all(not torch.equal(first, second) for second in drawn[:number])
    assert torch.equal(groups(operator, draw=1), drawn[1])


def test_shared_pattern_differs_between_seeds():
    first, second = (groups(ToMe(0.5, pattern="fixed", seed=seed)) for seed in (0, 1))
    assert not torch.equal(first, second)


def test_random_pattern_without_a_draw_is_the_first_one():
    grid = Grid(8, 8)
    x = tokens(grid)
    plan = ToMe(0.5).plan(x, call(grid)._replace(draw_key=None))
    assert torch.equal(plan.group, groups(ToMe(0.5)))


def test_rows_of_a_batch_share_the_drawn_pattern():
    grid = Grid(6, 8)
    x = tokens(grid, rows=1).expand(3, -1, -1)
    plan = ToMe(0.5).plan(x, call(grid))
    assert torch.equal(plan.group[0], plan.group[1])
    assert torch.equal(plan.group[0], plan.group[2])


def test_sito_without_noise_does_not_draw():
    operator = SiTo(0.5, noise=0)
    assert not operator.stochastic
    assert torch.equal(groups(operator, draw=1, site=4), groups(operator))
    assert torch.equal(groups(SiTo(0.5, noise=0, seed=5)), groups(operator))


def test_sito_with_noise_draws():
    operator = SiTo(0.5, noise=50.0)
    assert operator.stochastic
    drawn = [groups(operator), groups(operator, draw=1), groups(operator, site=1)]
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(groups(operator, site=1), drawn[2])


def test_sito_copies_tokens_that_are_kept():
    grid = Grid(7, 5)
    x = tokens(grid)
    plan = SiTo(0.6).plan(x, call(grid))
    kept = x.gather(1, plan.keep[..., None].expand(-1, -1, x.shape[-1]))
    assert torch.equal(plan.queries(x), kept)
    restored = plan.unmerge(plan.queries(x))
    assert torch.equal(restored.gather(1, plan.keep[..., None].expand_as(kept)), kept)


def test_schedule_starts_at_high_noise():
    grid = Grid(4, 4)
    x = tokens(grid, rows=3)
    where = call(grid)._replace(t=torch.tensor([999, 0, 333]))
    alpha = KVDownsample(alpha=(0.8, 1.1)).plan(x, where).alpha
    torch.testing.assert_close(alpha, torch.tensor([0.8, 1.1, 1.0]).view(3, 1, 1))


def test_a_pattern_for_each_row():
    grid = Grid(8, 8)
    operator = ToMe(0.75, pattern="per_row", seed=2)
    assert operator.stochastic
    x = tokens(grid)[:1].expand(3, -1, -1)
    plan = operator.plan(x, call(grid, rows=3, draw=5, site=1))
    places = draw_bits(2, branch(torch.tensor([5]), torch.arange(3)), 1, 16) % 4
    cells = references.cells(8, 8, 2)
    for row in range(3):
        chosen = [cell[place] for cell, place in zip(cells, places[row], strict=True)]
        assert len(plan.group[row, chosen].unique()) == 16
    assert not torch.equal(plan.group[0], plan.group[1])

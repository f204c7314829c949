"""ToMA: destinations, shares and maps against slow references, closed forms and the bound of greedy search."""

import itertools
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bigain
from bigain.operators import ToMA
from bigain.tokens.facility import facility_locations
from bigain.tokens.grid import Grid, Window
from bigain.tokens.matching import unit
from bigain.tokens.plans import Identity
from bigain.tokens.soft import equal_tiles, pseudo_inverse, soft_assign
from helpers import references
from helpers.operator_examples import GRIDS, call, tokens

BOUND = 1 - 1 / math.e


def cosines(x):
    """(B, T, A, C) -> (B, T, A, A)."""
    return unit(x) @ unit(x).transpose(-1, -2)


@pytest.mark.parametrize(
    ("grid", "ratio", "tiles", "unmerge"),
    [
        *((grid, ratio, 3, how) for grid in GRIDS for ratio, how in ((0.3, "transpose"), (0.7, "pinv"))),
        ((7, 5), 0.7, 8, "transpose"),
        ((13, 10), 0.5, (2, 5), "pinv"),
        ((6, 8), 0.01, 4, "transpose"),
    ],
    ids=str,
)
def test_toma_is_its_slow_version(grid, ratio, tiles, unmerge):
    grid = Grid(*grid)
    x = tokens(grid, rows=2, seed=1).double()
    expected = references.toma(x, grid, ratio, tiles, 0.2, unmerge == "pinv")
    plan = ToMA(ratio, tiles, 0.2, unmerge).plan(x, call(grid, rows=2))
    merged = plan.queries(x)
    if isinstance(plan, Identity):
        assert references.toma(x, grid, ratio, tiles, 0.2).tokens.shape == x.shape
        return
    torch.testing.assert_close(merged, expected.tokens)
    torch.testing.assert_close(plan.unmerge(merged), expected.restored)


tiles_of_tokens = st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(0, 10_000))


@settings(deadline=None, max_examples=40)
@given(tiles_of_tokens, st.data())
def test_greedy_is_greedy_and_reaches_the_bound(case, data):
    count, channels, seed = case
    x = torch.randn(2, 2, count, channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    similarity = cosines(x)
    wanted = data.draw(st.integers(1, count))
    found = facility_locations(similarity, wanted)
    for row, tile in itertools.product(range(2), range(2)):
        similar, places = similarity[row, tile].tolist(), found[row, tile].tolist()
        assert places == sorted(set(places))
        reached = references.coverage(similar, places)
        assert places == references.greedy_locations(similar, wanted)
        best = max(references.coverage(similar, list(some)) for some in itertools.combinations(range(count), wanted))
        assert reached + count >= BOUND * (best + count) - 1e-3  # counted from nothing chosen, which is -count


def test_all_tokens_as_destinations_are_the_identity():
    similarity = cosines(torch.randn(2, 3, 6, 4, generator=torch.Generator().manual_seed(0)))
    everything = facility_locations(similarity, 6)
    assert torch.equal(everything, torch.arange(6).expand(2, 3, -1))
    share = soft_assign(similarity, everything, 0.1)
    assert torch.equal(share, torch.eye(6).expand(2, 3, -1, -1))
    assert torch.equal(pseudo_inverse(share, share.sum(2)), share)


def test_one_destination_is_the_mean_of_its_tile():
    grid = Grid(4, 8)
    x = tokens(grid, rows=2)
    merged = ToMA(15 / 16, tiles=4).plan(x, call(grid, rows=2)).queries(x)
    left, right = (x.view(2, 4, 8, 5)[:, :, half].flatten(1, 2).mean(1) for half in (slice(4), slice(4, 8)))
    torch.testing.assert_close(merged, torch.stack([left, right], 1))


@pytest.mark.parametrize("unmerge", ["transpose", "pinv"])
def test_cold_shares_are_a_hard_map(unmerge):
    """Near temperature zero each token belongs to its nearest destination, as in an integer map."""
    grid = Grid(6, 6)
    x = tokens(grid, rows=2).double()
    plan = ToMA(0.5, tiles=6, temperature=1e-6, unmerge=unmerge).plan(x, call(grid, rows=2))
    hard = plan.share.round()
    torch.testing.assert_close(plan.share, hard, atol=1e-9, rtol=0)
    similar = cosines(x[:, None])[:, 0]
    for row in range(2):
        nearest = similar[row][:, plan.keep[row]].argmax(-1)
        assert plan.share[row, 0].argmax(-1).tolist() == [
            plan.keep[row].tolist().index(i) if i in plan.keep[row] else int(nearest[i]) for i in range(36)
        ]
    whole = torch.randn(2, 18, 3, dtype=torch.float64)
    torch.testing.assert_close(plan.queries(plan.unmerge(whole)), whole)


def test_the_transpose_smooths_and_the_pseudo_inverse_undoes():
    """Which contract holds: with shares, merging undoes unmerging for the pseudo-inverse alone."""
    grid = Grid(6, 6)
    x = tokens(grid, rows=2).double()
    whole = torch.randn(2, 18, 3, dtype=torch.float64)
    soft, exact = (ToMA(0.5, tiles=6, unmerge=how).plan(x, call(grid, rows=2)) for how in ("transpose", "pinv"))
    assert not torch.allclose(soft.queries(soft.unmerge(whole)), whole, atol=0.05)
    torch.testing.assert_close(exact.queries(exact.unmerge(whole)), whole)


@pytest.mark.parametrize(
    ("grid", "tiles", "tile"),
    [
        ((64, 64), 8, (8, 8)),
        ((33, 47), 8, (8, 9)),
        ((4, 5), 8, (4, 5)),
        ((15, 16), 8, (15, 8)),
        ((7, 6), (2, 3), (2, 3)),
    ],
)
def test_tiles_leave_few_tokens_over(grid, tiles, tile):
    sides = Window(tiles, tiles) if isinstance(tiles, int) else Window(*tiles)
    found = equal_tiles(Grid(*grid), sides)
    assert found == Window(*tile)
    assert all(side % part < max(1, side // part) for side, part in zip(grid, found, strict=True))


def test_memory_of_the_map_grows_with_tokens_times_tile():
    x = torch.empty(1, 64 * 64, 8, device="meta")
    plan = ToMA(0.5).plan(x, call(Grid(64, 64), rows=1, device="meta"))
    assert plan.share.numel() == 64 * 64 * 32


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ToMA(1.2), "ratio must be in [0, 1), got 1.2"),
        (lambda: ToMA(0.8, tiles=2), "ratio must be at most 0.75 for tiles of 2x2, in which one token stays, got 0.8; "
         "use a lower ratio or larger tiles"),
        (lambda: ToMA(0.5, tiles=1), "tiles must be an int of at least 2 or a pair (height, width), got 1"),
        (lambda: ToMA(0.5, temperature=0), "temperature must be a number above 0, got 0"),
        (lambda: ToMA(0.5, temperature=True), "temperature must be a number above 0, got True"),
        (lambda: ToMA(0.5, temperature=math.inf), "temperature must be a number above 0, got inf"),
        (lambda: ToMA(0.5, unmerge="inverse"), "unknown unmerge 'inverse'"),
        (lambda: ToMA(0.75, tiles=2).plan(tokens(Grid(7, 7)), call(Grid(7, 7))),
         "toma(ratio=0.75) would remove 4 tokens of each tile of 2x2, in which one stays: the largest ratio on a grid "
         "of 7x7 tokens is 0.5510"),
    ],
)  # fmt: skip
def test_errors(make, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        make()


def test_spec_and_words():
    assert bigain.spec(bigain.parse("toma(0.5, tiles=(4, 8))")) == "toma(ratio=0.5, tiles=(4, 8))"

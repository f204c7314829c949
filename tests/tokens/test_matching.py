import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.tokens.grid import Grid, Window, token_index
from bigain.tokens.matching import MATCHES, Match, exact_match, local_match, merge_most_similar, unit
from helpers.references import cosine, random_tokens

GRIDS = [
    (Grid(4, 4), Window(2, 2)),
    (Grid(9, 11), Window(2, 2)),
    (Grid(6, 18), Window(2, 3)),
    (Grid(17, 5), Window(3, 1)),
]


def places(grid: Grid, window: Window, rows: int = 2, seed: int = 1) -> torch.Tensor:
    """A random place in each cell: (B, T)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(window.tokens, (rows, window.cells(grid).tokens), generator=generator)


def cell_of(token: int, grid: Grid, window: Window) -> tuple[int, int]:
    """Row and column of a token's cell; beyond the whole cells the count goes on."""
    return token // grid.width // window.height, token % grid.width // window.width


def neighbours(token: int, grid: Grid, window: Window) -> set[int]:
    """Numbers of the whole cells next to a token's, or of the nearest whole cells where there is none."""
    row, column = cell_of(token, grid, window)
    cells = window.cells(grid)
    rows = {min(max(r, 0), cells.height - 1) for r in (row - 1, row, row + 1)}
    columns = {min(max(c, 0), cells.width - 1) for c in (column - 1, column, column + 1)}
    return {r * cells.width + c for r in rows for c in columns}


def search(x: torch.Tensor, place: torch.Tensor, grid: Grid, window: Window, local: bool) -> list[dict[int, tuple]]:
    """For each row: source -> (similarity, its best destination), one token at a time."""
    found = []
    for tokens, destinations in zip(x.tolist(), token_index(place, grid, window).tolist(), strict=True):
        best = {}
        for source in set(range(grid.tokens)) - set(destinations):
            cells = sorted(neighbours(source, grid, window)) if local else range(len(destinations))
            similar = {destinations[cell]: cosine(tokens[source], tokens[destinations[cell]]) for cell in cells}
            winner = max(similar, key=similar.get)
            best[source] = (similar[winner], winner)
        found.append(best)
    return found


def by_source(match: Match, row: int) -> dict[int, tuple[float, int]]:
    sides = (match.sources[row].tolist(), match.value[row].tolist(), match.best[row].tolist())
    return {source: (value, best) for source, value, best in zip(*sides, strict=True) if value > -torch.inf}


def test_unit_tokens_have_length_one():
    x = random_tokens(3, 4)
    torch.testing.assert_close(unit(x).norm(dim=-1), torch.ones(2, 12))
    torch.testing.assert_close(unit(5 * x), unit(x))


def test_unit_leaves_zeros_and_survives_large_half_values():
    assert torch.equal(unit(torch.zeros(1, 3, 2)), torch.zeros(1, 3, 2))
    large = torch.full((1, 2, 64), 6e4, dtype=torch.float16)
    assert unit(large).dtype == torch.float16
    torch.testing.assert_close(unit(large).float(), torch.full((1, 2, 64), 1 / 8))


@pytest.mark.parametrize("name", MATCHES)
@pytest.mark.parametrize(("grid", "window"), GRIDS)
def test_a_match_equals_a_search(name, grid, window):
    x, place = random_tokens(*grid), places(grid, window)
    match = MATCHES[name](x, place, grid, window)
    for row, expected in enumerate(search(x, place, grid, window, name == "local")):
        found = by_source(match, row)
        assert {s: best for s, (_, best) in found.items()} == {s: best for s, (_, best) in expected.items()}
        for source, (value, _) in found.items():
            assert value == pytest.approx(expected[source][0], abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(sides=st.tuples(*[st.integers(2, 21)] * 2), a=st.integers(1, 2), b=st.integers(2, 3), seed=st.integers(0, 99))
def test_local_candidates_are_those_next_door(sides, a, b, seed):
    grid, window = Grid(*sides), Window(a, b)
    if window.cells(grid).tokens == 0:
        return
    x, place = random_tokens(*grid, rows=1, seed=seed), places(grid, window, rows=1, seed=seed)
    destinations = token_index(place, grid, window)[0].tolist()
    match = local_match(x, place, grid, window)
    for source, (_, best) in by_source(match, 0).items():
        assert destinations.index(best) in neighbours(source, grid, window)
    assert set(by_source(match, 0)) == set(range(grid.tokens)) - set(destinations)


def test_the_two_agree_where_all_cells_are_neighbours():
    grid, window = Grid(6, 6), Window(2, 2)
    x, place = random_tokens(*grid), places(grid, window)
    middle = 2 * 6 + 2  # a token of the cell in the middle
    exact, local = (by_source(MATCHES[name](x, place, grid, window), 0) for name in ("exact", "local"))
    for token in (middle, middle + 1, middle + 6, middle + 7):
        if token in exact:
            assert local[token][1] == exact[token][1]


@pytest.mark.parametrize(("grid", "chosen"), [(Grid(64, 64), exact_match), (Grid(64, 66), local_match)])
def test_auto_is_exact_up_to_512_pixels_of_stable_diffusion(grid, chosen):
    window = Window(2, 2)
    x, place = random_tokens(*grid), places(grid, window)
    for found, wanted in zip(MATCHES["auto"](x, place, grid, window), chosen(x, place, grid, window), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("name", MATCHES)
def test_one_pattern_serves_all_rows(name):
    grid, window = Grid(8, 8), Window(2, 2)
    x, place = random_tokens(*grid, rows=3), places(grid, window, rows=1)
    one, each = MATCHES[name](x, place, grid, window), MATCHES[name](x, place.expand(3, -1), grid, window)
    assert torch.equal(one.best, each.best)


@pytest.mark.parametrize("name", MATCHES)
def test_a_match_ignores_length(name):
    grid, window = Grid(8, 8), Window(2, 2)
    x, place = random_tokens(*grid), places(grid, window)
    scale = 0.1 + 10 * torch.rand(2, 64, 1, generator=torch.Generator().manual_seed(2))
    match, scaled = MATCHES[name](x, place, grid, window), MATCHES[name](scale * x, place, grid, window)
    assert torch.equal(match.best, scaled.best)
    torch.testing.assert_close(match.value, scaled.value)


@pytest.mark.parametrize("name", MATCHES)
def test_a_match_of_zeros_is_a_number(name):
    grid, window = Grid(4, 4), Window(2, 2)
    match = MATCHES[name](torch.zeros(2, 16, 3), places(grid, window), grid, window)
    assert not match.value.isnan().any()
    assert match.best.min() >= 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MATCHES)
def test_half_precision_neither_overflows_nor_loses_the_order(name, dtype):
    grid, window = Grid(8, 8), Window(2, 2)
    x, place = random_tokens(*grid, channels=64), places(grid, window)
    big = (x * (1e4 if dtype == torch.float16 else 1e10)).to(dtype)
    match, wanted = MATCHES[name](big, place, grid, window), MATCHES[name](x, place, grid, window)
    assert match.value[match.value > -torch.inf].abs().max() <= 1.02
    assert (match.best == wanted.best).float().mean() > 0.9


@pytest.mark.parametrize("removed", [0, 1, 5, 12])
def test_merge_most_similar_equals_a_loop(removed):
    grid, window = Grid(4, 4), Window(2, 2)
    match = exact_match(random_tokens(4, 4, rows=3), places(grid, window, rows=3), grid, window)
    target = merge_most_similar(16, match, removed)
    for row in range(3):
        expected = list(range(16))
        order = sorted(range(12), key=lambda i, row=row: -match.value[row, i].item())
        for place in order[:removed]:
            expected[match.sources[row, place]] = match.best[row, place].item()
        assert target[row].tolist() == expected


def test_merge_most_similar_takes_the_first_of_equals():
    sources = torch.tensor([[1, 3, 5, 7]])
    target = merge_most_similar(8, Match(sources, torch.zeros(1, 4), torch.full((1, 4), 0)), 2)
    assert target.tolist() == [[0, 0, 2, 0, 4, 5, 6, 7]]

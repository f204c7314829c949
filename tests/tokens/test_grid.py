import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.tokens.grid import Grid, Window, left_over, other_offsets, token_index, window_partition
from helpers.references import cells

unhurried = settings(deadline=None, max_examples=50)
side = st.integers(1, 12)
sizes = st.builds(Grid, side, side)
windows = st.builds(Window, st.integers(1, 4), st.integers(1, 4))


@st.composite
def divided(draw):
    """A grid that has at least one whole cell."""
    window = draw(windows)
    return Grid(draw(st.integers(window.height, 12)), draw(st.integers(window.width, 12))), window


def arange(grid, rows=1):
    return torch.arange(grid.tokens).expand(rows, -1)


def test_names_and_counts():
    assert str(Grid(6, 8)) == "6x8"
    assert str(Window(1, 2)) == "1x2"
    assert Grid(6, 8).tokens == 48
    assert Window(2, 3).tokens == 6


@unhurried
@given(sizes, windows)
def test_cells_are_the_whole_ones(grid, window):
    rows, columns = window.cells(grid)
    assert rows * window.height <= grid.height < (rows + 1) * window.height
    assert columns * window.width <= grid.width < (columns + 1) * window.width
    assert window.cells(grid).tokens == len(cells(*grid, tuple(window)))


@unhurried
@given(divided(), st.integers(1, 3))
def test_fold_lists_the_tokens_of_each_cell(division, rows):
    grid, window = division
    folded = window_partition(arange(grid, rows), grid, window)
    expected = torch.tensor(cells(*grid, tuple(window)))
    assert torch.equal(folded, expected.expand(rows, -1, -1))


@unhurried
@given(divided())
def test_fold_keeps_rows_apart(division):
    grid, window = division
    values = torch.stack([arange(grid)[0], -arange(grid)[0]])
    folded = window_partition(values, grid, window)
    assert torch.equal(folded[0], -folded[1])


@unhurried
@given(divided())
def test_token_index_undoes_fold(division):
    grid, window = division
    places = torch.arange(window.tokens).expand(2, window.cells(grid).tokens, -1)
    assert torch.equal(token_index(places, grid, window), window_partition(arange(grid, 2), grid, window))


@unhurried
@given(divided(), st.data())
def test_token_index_of_one_place_per_cell(division, data):
    grid, window = division
    count = window.cells(grid).tokens
    place = data.draw(st.lists(st.integers(0, window.tokens - 1), min_size=count, max_size=count))
    expected = [cell[p] for cell, p in zip(cells(*grid, tuple(window)), place, strict=True)]
    assert token_index(torch.tensor([place]), grid, window)[0].tolist() == expected


@unhurried
@given(st.integers(2, 16), st.data())
def test_other_places_are_all_but_one_in_order(tokens, data):
    places = data.draw(st.lists(st.integers(0, tokens - 1), min_size=1, max_size=6))
    others = other_offsets(torch.tensor([places]), tokens)[0].tolist()
    assert others == [[p for p in range(tokens) if p != place] for place in places]


@unhurried
@given(sizes, windows)
def test_left_over_completes_the_cells(grid, window):
    inside = [number for cell in cells(*grid, tuple(window)) for number in cell]
    outside = left_over(grid, window, torch.device("cpu")).tolist()
    assert sorted(inside + outside) == list(range(grid.tokens))
    assert len(outside) == grid.tokens - window.cells(grid).tokens * window.tokens


def test_nothing_is_left_over_where_cells_fit():
    assert left_over(Grid(6, 8), Window(2, 4), torch.device("cpu")).shape == (0,)


def test_left_over_of_an_odd_grid():
    assert left_over(Grid(3, 5), Window(2, 2), torch.device("cpu")).tolist() == [4, 9, 10, 11, 12, 13, 14]


@unhurried
@given(sizes)
def test_cells_of_one_token_are_the_grid(grid):
    window = Window(1, 1)
    assert window.cells(grid) == grid
    assert torch.equal(window_partition(arange(grid), grid, window)[..., 0], arange(grid))

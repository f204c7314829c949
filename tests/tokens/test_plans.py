import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.tokens.grid import Grid
from bigain.tokens.plans import Assignment, Identity, Pooled, Selected, assign, expand_plan, flat_index, gather_tokens
from helpers.references import adaptive_cell, nearest_exact, random_tokens

unhurried = settings(deadline=None, max_examples=50)


@st.composite
def maps(draw):
    """Rows of maps "token i is represented by target[i]" in which equally many tokens are removed."""
    tokens = draw(st.integers(1, 12))
    removed = draw(st.integers(0, tokens - 1))
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(range(tokens)))
        gone, kept = order[:removed], order[removed:]
        row = list(range(tokens))
        for token in gone:
            row[token] = draw(st.sampled_from(kept))
        rows.append(row)
    return rows, removed


@unhurried
@given(maps())
def test_assign_numbers_survivors_in_order(case):
    rows, removed = case
    plan = assign(torch.tensor(rows), removed, prune=True)
    for row, target in enumerate(rows):
        kept = [i for i, t in enumerate(target) if t == i]
        assert plan.keep[row].tolist() == kept
        assert plan.group[row].tolist() == [kept.index(t) for t in target]
        assert plan.size[row].tolist() == [target.count(i) for i in kept]


@unhurried
@given(maps())
def test_merge_equals_a_loop(case):
    rows, removed = case
    target = torch.tensor(rows)
    x = random_tokens(target.shape[1], 1, rows=len(rows), channels=3)
    plan = assign(target, removed)
    merged = plan.queries(x)
    for row, places in enumerate(rows):
        kept = [i for i, t in enumerate(places) if t == i]
        expected = [x[row, [j for j, t in enumerate(places) if t == i]].mean(0) for i in kept]
        torch.testing.assert_close(merged[row], torch.stack(expected))
        torch.testing.assert_close(plan.unmerge(merged)[row], torch.stack([expected[kept.index(t)] for t in places]))


@unhurried
@given(maps())
def test_pruning_keeps_representatives_as_they_are(case):
    rows, removed = case
    target = torch.tensor(rows)
    x = random_tokens(target.shape[1], 1, rows=len(rows), channels=3)
    plan = assign(target, removed, prune=True)
    assert torch.equal(plan.unmerge(plan.queries(x)), gather_tokens(x, target))


def test_averages_have_no_representative():
    assert assign(torch.tensor([[0, 0, 2]]), 1).keep is None


def test_self_attention_has_no_context():
    plan = assign(torch.tensor([[0, 0, 2]]), 1)
    assert plan.context(torch.zeros(1, 3, 2)) is None
    assert Identity().context(torch.zeros(1, 3, 2)) is None


@pytest.mark.parametrize("prune", [False, True])
def test_key_bias_is_the_log_of_the_sizes(prune):
    plan = assign(torch.tensor([[0, 0, 0, 3], [0, 1, 1, 1]]), 2, prune=prune, weighted=True)
    bias = plan.key_bias(torch.zeros(2, 4, 5))
    assert bias.shape == (2, 1, 2)
    torch.testing.assert_close(bias, torch.tensor([[[3.0, 1.0]], [[1.0, 3.0]]]).log())
    assert plan.key_bias(torch.zeros(2, 4, 5, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_key_bias_is_none_unless_weighted():
    x = torch.zeros(1, 4, 2)
    plans = [
        Identity(),
        assign(torch.tensor([[0, 0, 0, 3]]), 2),
        Pooled(Grid(2, 2), Grid(1, 1), 0.5),
        Selected(torch.tensor([[1, 2]])),
    ]
    assert all(plan.key_bias(x) is None for plan in plans)


@pytest.mark.parametrize("value", [100.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_group_of_thousands_neither_overflows_nor_drifts(dtype, value):
    x = (value * (1 + 0.1 * random_tokens(64, 64, rows=1, channels=3))).to(dtype)
    plan = assign(torch.zeros(1, 4096, dtype=torch.int64), 4095)
    merged = plan.queries(x)
    assert merged.dtype == dtype
    exact = x.double().mean(1, keepdim=True)
    torch.testing.assert_close(merged.double(), exact, rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("fine", [2, 3, 5, 7, 8, 13, 16, 32, 61])
def test_pooled_index_is_nearest_exact_and_inside_its_cell(fine):
    x = torch.arange(float(fine)).view(1, fine, 1)
    for coarse in {fine // factor for factor in range(2, fine + 1)}:
        near = Pooled(Grid(fine, 1), Grid(coarse, 1), 1.0).context(x).flatten().tolist()
        mean = Pooled(Grid(fine, 1), Grid(coarse, 1), 0.0).context(x).flatten().tolist()
        for place in range(coarse):
            cell = adaptive_cell(place, fine, coarse)
            assert near[place] == nearest_exact(place, fine, coarse)
            assert near[place] in cell
            assert mean[place] == pytest.approx(sum(cell) / len(cell), rel=1e-5)


def test_pooled_cells_cover_the_grid():
    for fine in range(2, 40):
        for coarse in range(1, fine + 1):
            covered = {i for place in range(coarse) for i in adaptive_cell(place, fine, coarse)}
            assert covered == set(range(fine))


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.3, 1.0, 1.2])
def test_pooled_alpha_is_a_number_or_one_per_row(alpha):
    grid, coarse = Grid(7, 5), Grid(3, 2)
    x = random_tokens(*grid)
    plan = Pooled(grid, coarse, alpha)
    per_row = Pooled(grid, coarse, torch.full((2, 1, 1), alpha))
    torch.testing.assert_close(plan.context(x), per_row.context(x))
    assert plan.queries(x) is x
    assert plan.unmerge(x) is x


def test_selected_takes_tokens():
    x = random_tokens(2, 3)
    plan = Selected(torch.tensor([[0, 5], [2, 3]]))
    assert torch.equal(plan.context(x), torch.stack([x[0, [0, 5]], x[1, [2, 3]]]))
    assert plan.queries(x) is x
    assert plan.unmerge(x) is x


def test_take_rows_and_flat_rows():
    index = torch.tensor([[0, 2], [1, 1]])
    assert flat_index(index, 3).tolist() == [0, 2, 4, 4]
    x = random_tokens(1, 3)
    assert torch.equal(gather_tokens(x, index), torch.stack([x[0, [0, 2]], x[1, [1, 1]]]))
    same_for_all = torch.tensor([[2, 0]]).expand(2, -1)
    assert torch.equal(gather_tokens(x, same_for_all), x[:, [2, 0]])


ROWS = torch.tensor([0, 0, 0, 1, 1, 1])
TARGET = torch.tensor([[0, 0, 2, 3, 3], [0, 1, 1, 1, 4]])


@pytest.mark.parametrize("rows", [ROWS, torch.tensor([0, 1, 0, 1, 1, 0])])
@pytest.mark.parametrize(
    "plan",
    [
        assign(TARGET, 2, weighted=True),
        assign(TARGET, 2, prune=True),
        Selected(torch.tensor([[0, 4], [1, 2]])),
        Pooled(Grid(1, 5), Grid(1, 2), torch.tensor([0.2, 0.9]).view(2, 1, 1)),
        Pooled(Grid(1, 5), Grid(1, 2), 0.4),
        Identity(),
    ],
    ids=lambda plan: type(plan).__name__,
)
def test_a_plan_of_two_rows_serves_six(plan, rows):
    wide = expand_plan(plan, rows)
    assert type(wide) is type(plan)
    x = random_tokens(1, 5, rows=6, channels=4)
    for row, source in enumerate(rows.tolist()):
        mine = expand_plan(plan, torch.tensor([source]))
        one = x[row : row + 1]
        assert torch.equal(wide.queries(x)[row], mine.queries(one)[0])
        assert torch.equal(wide.unmerge(wide.queries(x))[row], mine.unmerge(mine.queries(one))[0])
        for part in (wide.context, wide.key_bias):
            whole, single = part(x), getattr(mine, part.__name__)(one)
            assert (whole is None) == (single is None)
            assert whole is None or torch.equal(whole[row], single[0])


def test_share_keeps_sizes_and_weights():
    plan = assign(TARGET, 2, weighted=True)
    wide = expand_plan(plan, ROWS)
    assert isinstance(wide, Assignment)
    assert wide.weighted
    assert wide.keep is None
    assert torch.equal(wide.size, plan.size[ROWS])

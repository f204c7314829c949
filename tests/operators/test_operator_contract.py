"""What every registered operator must do."""

import pytest
import torch

from bigain.operators import OPERATORS, parse
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Assignment, Identity, Pooled
from bigain.tokens.soft import SoftAssignment
from helpers.operator_examples import (
    AVERAGING,
    EXAMPLES,
    GRIDS,
    HARD,
    KEYS_ONLY,
    NEUTRAL,
    ROWS,
    SHORTENING,
    SOFT,
    SPECS,
    call,
    key_count,
    outputs,
    removed_tokens,
    same,
    tokens,
)  # fmt: skip

every_grid = pytest.mark.parametrize("grid", GRIDS, ids=str)
two_grids = pytest.mark.parametrize("grid", [Grid(6, 8), Grid(7, 5)], ids=str)
every_spec = pytest.mark.parametrize("text", SPECS)
halves = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])


def test_every_operator_has_examples():
    assert set(EXAMPLES) == set(OPERATORS)
    assert set(NEUTRAL) == set(OPERATORS)
    for table in (EXAMPLES, {name: [text] for name, text in NEUTRAL.items()}):
        assert all(type(parse(text)) is OPERATORS[name] for name, texts in table.items() for text in texts)


@every_spec
def test_operator_says_what_it_is(text):
    operator = parse(text)
    assert all(
        type(value) is bool for value in (operator.data_dependent, operator.reduces_queries, operator.stochastic)
    )
    assert hash(operator) == hash(parse(text))
    with pytest.raises(AttributeError):
        operator.data_dependent = not operator.data_dependent


@every_grid
@pytest.mark.parametrize("text", NEUTRAL.values())
def test_neutral_setting_is_the_identity(text, grid):
    x = tokens(grid)
    plan = parse(text).plan(x, call(grid))
    assert isinstance(plan, Identity)
    assert plan.queries(x) is x
    assert plan.unmerge(x) is x
    assert plan.context(x) is None
    assert plan.key_bias(x) is None


@every_grid
@every_spec
def test_example_compresses(text, grid):
    x = tokens(grid)
    operator = parse(text)
    plan = operator.plan(x, call(grid))
    queries, context = plan.queries(x), plan.context(x)
    if operator.reduces_queries:
        assert queries.shape == (ROWS, grid.tokens - removed_tokens(operator, grid), 5)
        assert context is None
    else:
        assert torch.equal(queries, x)
        assert context.shape == (ROWS, key_count(operator, grid), 5)
    assert plan.unmerge(queries).shape == x.shape
    assert max(queries.shape[1], 0 if context is None else context.shape[1]) <= grid.tokens


@every_grid
@pytest.mark.parametrize("text", HARD)
def test_groups_hold_every_token_once(text, grid):
    plan = parse(text).plan(tokens(grid), call(grid))
    assert isinstance(plan, Assignment)
    assert plan.group.shape == (ROWS, grid.tokens)
    assert plan.size.sum(1).tolist() == [grid.tokens] * ROWS
    for group, size in zip(plan.group, plan.size, strict=True):
        assert torch.equal(torch.bincount(group, minlength=len(size)), size)
    assert plan.size.min() >= 1


@every_grid
@pytest.mark.parametrize("text", SOFT)
def test_shares_of_a_token_sum_to_one_and_destinations_are_whole(text, grid):
    plan = parse(text).plan(tokens(grid), call(grid))
    assert isinstance(plan, SoftAssignment)
    assert plan.share.min() >= 0
    torch.testing.assert_close(plan.share.sum(-1), torch.ones(plan.share.shape[:3]))
    torch.testing.assert_close(plan.size.sum(1), torch.full((ROWS,), float(grid.tokens)))
    assert plan.size.min() >= 1
    groups = plan.queries(torch.eye(grid.tokens).expand(ROWS, -1, -1))  # the weight of each token in each group
    alone = torch.zeros(ROWS, plan.size.shape[1], plan.size.shape[1]).diagonal_scatter(1 / plan.size, dim1=1, dim2=2)
    torch.testing.assert_close(groups.gather(2, plan.keep[:, None].expand_as(alone)), alone)


@every_grid
@pytest.mark.parametrize("text", [text for text in SHORTENING if text in HARD or "pinv" in text])
def test_merging_undoes_unmerging(text, grid):
    plan = parse(text).plan(tokens(grid), call(grid))
    numbers = torch.Generator().manual_seed(1)
    shape = (*plan.size.shape, 4)
    whole = torch.randint(-9, 9, shape, generator=numbers).float()
    again = plan.queries(plan.unmerge(whole))
    assert torch.equal(again if text in HARD else again.round(decimals=4), whole)
    real = torch.randn(shape, generator=numbers)
    torch.testing.assert_close(plan.queries(plan.unmerge(real)), real, rtol=1e-5, atol=1e-6)


@every_grid
@pytest.mark.parametrize("text", AVERAGING)
def test_merging_keeps_the_mass(text, grid):
    x = tokens(grid).round(decimals=1)
    plan = parse(text).plan(x, call(grid))
    mass = (plan.queries(x).double() * plan.size[..., None]).sum(1)
    torch.testing.assert_close(mass, x.double().sum(1), rtol=0, atol=1e-4)


@two_grids
@every_dtype
@every_spec
def test_constants_are_kept(text, dtype, grid):
    plan = parse(text).plan(tokens(grid).to(dtype), call(grid))
    constant = torch.tensor([3.0, -0.5, 0.0, 100.0], dtype=dtype).expand(ROWS, grid.tokens, 4)
    queries, context, _, restored = outputs(plan, constant)
    # shares sum to one but for rounding, which half precision does not see
    tolerance = 1e-5 if text in SOFT and dtype == torch.float32 else 0
    for part in (queries, restored, queries if context is None else context):
        torch.testing.assert_close(part, constant[:, : part.shape[1]], rtol=tolerance, atol=0)


@every_grid
@pytest.mark.parametrize("text", KEYS_ONLY)
def test_keys_keep_linear_maps(text, grid):
    """The keys of X·W + b are the keys of X, times W, plus b: so they may be made before the projection."""
    x = tokens(grid)
    plan = parse(text).plan(x, call(grid))
    generator = torch.Generator().manual_seed(2)
    weight, bias = torch.randn(5, 3, generator=generator), torch.randn(3, generator=generator)
    torch.testing.assert_close(plan.context(x @ weight + bias), plan.context(x) @ weight + bias, rtol=1e-4, atol=1e-4)


@every_dtype
@two_grids
@every_spec
def test_dtype_is_kept(text, grid, dtype):
    x = tokens(grid).to(dtype)
    plan = parse(text).plan(x, call(grid))
    assert all(part is None or part.dtype == dtype for part in outputs(plan, x))


def widened(plan):
    """The same plan in float32."""
    if isinstance(plan, Pooled) and not isinstance(plan.alpha, float):
        return plan._replace(alpha=plan.alpha.float())
    return plan


@halves
@two_grids
@every_spec
def test_half_precision_is_near_float32_for_the_same_plan(text, grid, dtype):
    x = tokens(grid).to(dtype)
    plan = parse(text).plan(x, call(grid))
    near = outputs(plan, x)
    exact = outputs(widened(plan), x.float())
    tolerance = 4 * torch.finfo(dtype).eps
    for half, full in zip(near, exact, strict=True):
        assert (half is None) == (full is None)
        if half is not None:
            torch.testing.assert_close(half.float(), full, rtol=tolerance, atol=3 * tolerance)


@halves
@pytest.mark.parametrize("text", SPECS)
def test_half_precision_mostly_chooses_as_float32_does(text, dtype):
    """Most tokens end near where float32 tokens of the same value end."""
    grid = Grid(8, 8)
    x = tokens(grid, channels=16).to(dtype)
    operator = parse(text)
    half, full = operator.plan(x, call(grid)), operator.plan(x.float(), call(grid))
    context = half.context(x)
    if context is None:
        context, expected = half.unmerge(half.queries(x)), full.unmerge(full.queries(x.float()))
    else:
        expected = full.context(x.float())
    close = torch.isclose(context.float(), expected, rtol=0.05, atol=0.05).all(-1)
    assert close.float().mean() > 0.6


@every_grid
@every_spec
def test_same_bits_twice(text, grid):
    x = tokens(grid)
    first = outputs(parse(text).plan(x, call(grid, draw=3)), x)
    second = outputs(parse(text).plan(x.clone(), call(grid, draw=3)), x.clone())
    assert same(first, second)


def equal_rows(text, first, second):
    """To the last bit, or to rounding where a plan is a matrix product, whose bits depend on where a row lies."""
    if text not in SOFT:
        return same(first, second)
    pairs = zip(first, second, strict=True)
    return all(a is b if a is None or b is None else torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs)


@every_grid
@every_spec
def test_rows_are_independent(text, grid):
    x = tokens(grid)
    operator, where = parse(text), call(grid, draw=5, site=2)
    together = outputs(operator.plan(x, where), x)
    for row in range(ROWS):
        one = x[row : row + 1]
        alone = outputs(operator.plan(one, where._replace(t=where.t[row : row + 1])), one)
        assert equal_rows(text, [part if part is None else part[row : row + 1] for part in together], alone)


@every_spec
def test_order_of_rows_does_not_matter(text):
    grid = Grid(7, 5)
    x, where = tokens(grid), call(grid)
    order = torch.tensor([2, 0, 1])
    straight = outputs(parse(text).plan(x, where), x)
    shuffled = outputs(parse(text).plan(x[order], where._replace(t=where.t[order])), x[order])
    assert equal_rows(text, [part if part is None else part[order] for part in straight], shuffled)


@every_grid
@every_spec
def test_shapes_need_no_data(text, grid):
    x = tokens(grid)
    real = outputs(parse(text).plan(x, call(grid)), x)
    ghost = x.to("meta")
    shapes = outputs(parse(text).plan(ghost, call(grid, device="meta")), ghost)
    for part, shape in zip(real, shapes, strict=True):
        assert (part is None) == (shape is None)
        assert part is None or (part.shape == shape.shape and shape.device.type == "meta")


@every_spec
def test_tokens_are_left_as_they_were(text):
    grid = Grid(6, 8)
    x = tokens(grid)
    before = x.clone()
    outputs(parse(text).plan(x, call(grid)), x)
    assert torch.equal(x, before)


@every_spec
def test_strided_tokens_give_the_same_result(text):
    grid = Grid(6, 8)
    x = tokens(grid)
    strided = x.transpose(1, 2).contiguous().transpose(1, 2)
    plain = outputs(parse(text).plan(x, call(grid)), x)
    viewed = outputs(parse(text).plan(strided, call(grid)), strided)
    for first, second in zip(plain, viewed, strict=True):
        if first is not None:
            torch.testing.assert_close(first, second)


@every_spec
def test_a_plan_serves_other_channels(text):
    grid = Grid(6, 8)
    plan = parse(text).plan(tokens(grid), call(grid))
    wide = tokens(grid, channels=7, seed=4)
    assert plan.unmerge(plan.queries(wide)).shape == wide.shape


@pytest.mark.parametrize("value", [0.0, 1.0])
@every_spec
def test_tokens_that_are_all_alike_stay_finite_and_alike(text, value):
    grid = Grid(7, 5)
    x = torch.full((ROWS, grid.tokens, 4), value)
    queries, context, bias, restored = outputs(parse(text).plan(x, call(grid)), x)
    for part in (queries, restored, queries if context is None else context):
        torch.testing.assert_close(part, torch.full_like(part, value), rtol=1e-5 if text in SOFT else 0, atol=0)
    assert bias is None or bias.isfinite().all()


@every_spec
def test_gradients_flow_to_the_tokens(text):
    grid = Grid(6, 8)
    x = tokens(grid).requires_grad_()
    plan = parse(text).plan(x, call(grid))
    _, context, _, restored = outputs(plan, x)
    (restored.sum() if context is None else context.sum()).backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0


@every_spec
def test_global_generator_is_not_touched(text):
    grid = Grid(6, 8)
    x = tokens(grid)
    before = torch.random.get_rng_state()
    parse(text).plan(x, call(grid))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("text", [text for text in SPECS if not parse(text).stochastic])
def test_the_draw_matters_only_to_operators_that_draw(text):
    grid = Grid(6, 8)
    x = tokens(grid)
    first = outputs(parse(text).plan(x, call(grid, draw=1, site=1)), x)
    second = outputs(parse(text).plan(x, call(grid, draw=2, site=5)), x)
    assert same(first, second)


@pytest.mark.parametrize("axis", ["draw", "site"])
@pytest.mark.parametrize("text", [text for text in SPECS if parse(text).stochastic])
def test_operators_that_draw_differ_between_draws_and_sites(text, axis):
    grid = Grid(9, 11)
    x = tokens(grid)
    plans = [parse(text).plan(x, call(grid, **{axis: number})) for number in range(12)]
    assert any(not torch.equal(plan.group, plans[0].group) for plan in plans)


@pytest.mark.parametrize("text", [text for text in SPECS if not parse(text).data_dependent])
def test_operators_that_do_not_look_plan_without_the_tokens(text):
    grid = Grid(6, 8)
    x = tokens(grid)
    plan = parse(text).plan(x, call(grid))
    blind = parse(text).plan(torch.zeros_like(x), call(grid))
    assert same(outputs(plan, x), outputs(blind, x))


@pytest.mark.parametrize("value", [100.0, 1000.0])
@halves
@pytest.mark.parametrize("text", [f"block_merge(ratio={4095 / 4096}, window=64)", "avg_pool(64)"])
def test_thousands_of_half_precision_tokens_are_averaged_safely(text, dtype, value):
    grid = Grid(64, 64)
    x = (value * (1 + 0.1 * tokens(grid, rows=1, channels=3))).to(dtype)
    plan = parse(text).plan(x, call(grid, rows=1))
    context = plan.context(x)
    pooled = plan.queries(x) if context is None else context
    assert pooled.shape == (1, 1, 3)
    torch.testing.assert_close(pooled.double(), x.double().mean(1, keepdim=True), rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("grid", [*GRIDS, Grid(8, 8)], ids=str)
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.1, 0.29, 0.3, 0.5, 0.7, 0.75])
@pytest.mark.parametrize("name", ["gated_merge", "tome", "sito"])
def test_removed_tokens_are_exact(name, ratio, grid):
    x = tokens(grid, rows=1)
    merged = parse(f"{name}(ratio={ratio})").plan(x, call(grid, rows=1)).queries(x)
    assert merged.shape[1] == grid.tokens - int(grid.tokens * ratio)


@pytest.mark.parametrize("window", [2, 3, (1, 2), (2, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_merged_tiles_are_exact(grid, window):
    x = tokens(grid, rows=1)
    for ratio in (0.0, 0.05, 0.1, 0.3, 0.4):
        operator = parse(f"block_merge(ratio={ratio}, window={window})")
        each = (window**2 if isinstance(window, int) else window[0] * window[1]) - 1
        tiles = int(grid.tokens * ratio) // each
        plan = operator.plan(x, call(grid, rows=1))
        assert plan.queries(x).shape[1] == grid.tokens - tiles * each
        assert isinstance(plan, Identity) == (tiles == 0)
        if tiles:
            assert plan.size[0].tolist().count(each + 1) == tiles


@pytest.mark.parametrize("text", SHORTENING)
def test_weights_are_the_log_of_the_group_sizes(text):
    grid = Grid(7, 5)
    x = tokens(grid)
    operator = parse(text)
    plan = operator.plan(x, call(grid))
    bias = plan.key_bias(x)
    if not operator.weighted:
        assert bias is None
        return
    assert bias.shape == (ROWS, 1, plan.size.shape[1])
    torch.testing.assert_close(bias, plan.size[:, None].double().log().float())

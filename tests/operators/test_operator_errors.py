"""The texts of the errors that users see."""

import re

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
    parse,
)  # fmt: skip
from bigain.operators.base import check_cells
from bigain.tokens.grid import Grid, Window
from bigain.tokens.scores import SCORERS
from helpers.operator_examples import call, tokens

every_merge = pytest.mark.parametrize("operator", [GatedMerge, BlockMerge, ToMe, SiTo])
every_pool = pytest.mark.parametrize("operator", [KVDownsample, ToDo, AvgPool])


def plan(operator, grid, **where):
    return operator.plan(tokens(grid), call(grid)._replace(**where))


@every_merge
@pytest.mark.parametrize("ratio", [-0.1, 1, 1.5, float("nan"), float("inf")])
def test_ratio_out_of_range(operator, ratio):
    text = rf"ratio must be in \[0, 1\), got {ratio}$"
    with pytest.raises(ValueError, match=text):
        operator(ratio)


@every_merge
@pytest.mark.parametrize("ratio", ["0.5", None, True, [0.5]])
def test_ratio_that_is_no_number(operator, ratio):
    text = re.escape(f"ratio must be a number in [0, 1), got {ratio!r}")
    with pytest.raises(TypeError, match=text):
        operator(ratio)


@every_merge
@pytest.mark.parametrize(
    ("window", "cell", "ratio", "largest"),
    [(2, "2x2", 0.8, "0.75"), ((1, 2), "1x2", 0.6, "0.5"), (4, "4x4", 0.95, "0.9375")],
)
def test_ratio_above_the_largest_of_the_window(operator, window, cell, ratio, largest):
    text = (
        f"ratio must be at most {largest} for cells of {cell}, in which one token stays, got {ratio}; "
        "use a lower ratio or a larger window"
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        operator(ratio, window=window)


@pytest.mark.parametrize("window", [2, 3, 4, 5, 6, 7, (1, 2), (1, 3), (2, 3)], ids=str)
def test_the_largest_ratio_that_is_named_is_allowed(window):
    with pytest.raises(ValueError, match="ratio must be at most") as raised:
        GatedMerge(0.999, window=window)
    named = float(re.search(r"at most ([\d.]+) for", str(raised.value)).group(1))
    assert GatedMerge(named, window=window).ratio == named


@every_merge
@pytest.mark.parametrize(
    "window", [0, 1, -2, True, 2.0, "2", None, (1, 1), (0, 2), (2, -1), (2,), (2, 2, 2), (2, 1.5), [2, 2]], ids=str
)
def test_window_that_is_none(operator, window):
    text = re.escape(f"window must be an int of at least 2 or a pair (height, width), got {window!r}")
    with pytest.raises(ValueError, match=text):
        operator(0.5, window=window)


@pytest.mark.parametrize(
    "operator",
    [
        GatedMerge(0.5, window=4),
        GatedMerge(0.5, window=4, anchor="highest"),
        GatedMerge(0.5, window=4, anchor="row_order"),
        ToMe(0.5, window=4),
        ToMe(0.5, window=4, pattern="corner"),
        SiTo(0.5, window=4),
    ],
    ids=str,
)
def test_window_larger_than_the_grid(operator):
    with pytest.raises(ValueError, match="a grid of 3x5 tokens has no whole cell of 4x4; use a smaller window"):
        plan(operator, Grid(3, 5))


@pytest.mark.parametrize("operator", [GatedMerge, BlockMerge, ToMe, SiTo])
def test_window_wider_than_the_grid(operator):
    with pytest.raises(ValueError, match="a grid of 9x3 tokens has no whole cell of 1x4; use a smaller window"):
        plan(operator(0.7, window=(1, 4)), Grid(9, 3))


def test_check_cells_allows_one_cell():
    assert check_cells(Window(2, 2), Grid(2, 3)) is None


@pytest.mark.parametrize(
    ("grid", "ratio", "merged", "tiles", "largest"),
    [(Grid(7, 5), 0.75, 8, 6, "0.5143"), (Grid(3, 5), 0.75, 3, 2, "0.4000"), (Grid(9, 11), 0.7, 23, 20, "0.6061")],
    ids=str,
)
def test_block_merge_with_more_tiles_than_an_odd_grid_has(grid, ratio, merged, tiles, largest):
    text = (
        f"block_merge(ratio={ratio}) would merge {merged} tiles, but a grid of {grid} tokens has {tiles} whole tiles "
        f"of 2x2: the largest ratio there is {largest}"
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        plan(BlockMerge(ratio), grid)
    assert plan(BlockMerge(float(largest)), grid).size.shape[1] >= grid.tokens - 3 * tiles


@every_pool
@pytest.mark.parametrize("factor", [0, -1, 2.0, "2", None, True, (2, 2)], ids=str)
def test_factor_that_is_none(operator, factor):
    text = re.escape(f"factor must be an int of at least 1, got {factor!r}")
    with pytest.raises(ValueError, match=text):
        operator(factor)


@every_pool
def test_factor_larger_than_the_grid(operator):
    text = "factor must be at most 4 on a grid of 4x6 tokens, got 5; use a smaller factor"
    with pytest.raises(ValueError, match=text):
        plan(operator(5), Grid(4, 6))
    assert plan(operator(4), Grid(4, 6)).coarse == Grid(1, 1)


@pytest.mark.parametrize(
    "alpha", ["0.9", None, True, (0.8,), (0.8, 1.0, 1.2), (0.8, "1"), [0.8, 1.2], float("nan"), float("inf")], ids=str
)
def test_alpha_that_is_none(alpha):
    text = re.escape(f"alpha must be a number or a pair (at high noise, at low noise), got {alpha!r}")
    with pytest.raises(ValueError, match=text):
        KVDownsample(alpha=alpha)


def test_alpha_schedule_without_time_step():
    text = re.escape("alpha=(0.8, 1.2) is a schedule over t, but the model was called without a timestep")
    with pytest.raises(ValueError, match=text):
        plan(KVDownsample(alpha=(0.8, 1.2)), Grid(4, 4), t=None)
    assert plan(KVDownsample(alpha=0.8), Grid(4, 4), t=None).alpha == 0.8


@pytest.mark.parametrize("keep", [0, -0.5, 1.01, "0.5", True, None, float("nan")])
def test_keep_out_of_range(keep):
    text = re.escape(f"keep must be in (0, 1], got {keep!r}")
    with pytest.raises(ValueError, match=text):
        KVSelect(keep)


@pytest.mark.parametrize("noise", [-0.1, "0.1", None, True, float("nan")])
def test_noise_out_of_range(noise):
    text = re.escape(f"noise must be a number of at least 0, got {noise!r}")
    with pytest.raises(ValueError, match=text):
        SiTo(0.5, noise=noise)


@pytest.mark.parametrize("operator", [ToMe, SiTo])
@pytest.mark.parametrize("seed", [-1, 2**31, 1.0, "1", True, None])
def test_seed_out_of_range(operator, seed):
    with pytest.raises(ValueError, match=re.escape(f"seed must be an int from 0 to 2**31 - 1, got {seed!r}")):
        operator(0.5, seed=seed)


@every_merge
@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_weighted_is_a_flag(operator, value):
    with pytest.raises(TypeError, match=f"weighted must be True or False, got {value!r}"):
        operator(0.5, weighted=value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ToMe(0.5, pattern="per_cal"), "unknown pattern 'per_cal'. Did you mean 'per_call'?"),
        (lambda: GatedMerge(0.5, anchor="lower"), "unknown anchor 'lower'. Did you mean 'lowest'?"),
        (lambda: BlockMerge(0.5, tile="median"), "unknown tile score 'median'. Did you mean 'mean'?"),
        (lambda: KVSelect(0.5, prefer="smoth"), "unknown preference 'smoth'. Did you mean 'smooth'?"),
        (lambda: GatedMerge(0.5, scorer="laplacian"), "unknown scorer 'laplacian'. Did you mean 'laplacian_l"),
        (lambda: BlockMerge(0.5, scorer="l2norm"), "unknown scorer 'l2norm'. Did you mean 'l2_norm'?"),
        (lambda: KVSelect(0.5, scorer="dft"), "unknown scorer 'dft'"),
    ],
)
def test_unknown_choice_suggests_the_nearest(make, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        make()


@pytest.mark.parametrize(
    ("make", "choices"),
    [
        (lambda: ToMe(0.5, pattern="x"), ("per_call", "per_row", "fixed", "corner")),
        (lambda: ToMe(0.5, match="x"), ("auto", "exact", "local")),
        (lambda: GatedMerge(0.5, match="x"), ("auto", "exact", "local")),
        (lambda: GatedMerge(0.5, anchor="x"), ("lowest", "highest", "row_order")),
        (lambda: BlockMerge(0.5, tile="x"), ("max", "mean", "min")),
        (lambda: KVSelect(0.5, prefer="x"), ("smooth", "detail")),
        (lambda: GatedMerge(0.5, scorer="x"), tuple(SCORERS)),
        (lambda: parse("x()"), tuple(OPERATORS)),
        (lambda: parse("tome(0.5, x=1)"), ("ratio", "window", "pattern", "seed", "match", "weighted")),
    ],
)
def test_unknown_choice_lists_all_choices(make, choices):
    with pytest.raises(ValueError, match=re.escape("Available: " + ", ".join(choices)) + r"($|\. Load your own)"):
        make()


def test_scorer_by_name():
    with pytest.raises(KeyError, match=r"unknown scorer 'l1norm'\. Did you mean 'l1_norm'"):
        SCORERS["l1norm"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gated_merg(0.5)", "unknown operator 'gated_merg'. Did you mean 'gated_merge'? Available: "),
        ("gated_merge(ratoi=0.5)", "unknown gated_merge parameter 'ratoi'. Did you mean 'ratio'? Available: ratio, "),
        ("gated_merge()", "gated_merge takes ratio, window=2, scorer='laplacian_l1', anchor='lowest', match="),
        ("gated_merge", "weighted=False: missing a required argument: 'ratio'"),
        ("todo(2, 3)", "todo takes factor=2: too many positional arguments"),
        ("todo(2, factor=3)", "todo takes factor=2: multiple values for argument 'factor'"),
        ("gated_merge(70)", "in [0, 1), got 70; did you mean 0.7?"),
        ("my_merge(0.5)", "Load your own with `bigain --load FILE COMMAND`, or import its module"),
        ("gated_merge(0.9)", "ratio must be at most 0.75 for cells of 2x2"),
        ("gated_merge('a')", "ratio must be a number in [0, 1), got 'a'"),
    ],
)
def test_texts_with_wrong_names_or_values(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "gated_merge(__import__('os'))",
        "gated_merge(ratio=__import__('os').getpid())",
        "gated_merge(ratio=1/2)",
        "gated_merge(ratio=ratio)",
        "gated_merge(**{'ratio': 0.5})",
        "gated_merge(*[0.5])",
        "gated_merge(ratio=0.5",
        "gated_merge(ratio=0.5, ratio=0.5)",
        "gated_merge(ratio=0.5); tome(0.5)",
        "gated_merge[0.5]",
        "operators.gated_merge(0.5)",
        "gated_merge(0.5)(0.5)",
        "gated_merge(ratio={[]: 1})",
        "0.5",
        "",
        "   ",
    ],
)
def test_texts_that_are_no_calls_with_literals(text):
    message = f"cannot read the operator {text!r}; write it as a call with plain values, like name(ratio=0.7"
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


def test_errors_come_before_the_tokens_are_touched():
    ghost = torch.empty(1, 16, 3, device="meta")
    with pytest.raises(ValueError, match="factor must be at most 4"):
        ToDo(9).plan(ghost, call(Grid(4, 4), rows=1, device="meta"))


def test_an_operator_that_is_no_dataclass(monkeypatch):
    monkeypatch.setitem(OPERATORS._items, "bare", type("Bare", (), {}))
    with pytest.raises(
        TypeError, match=r"operator \'bare\' must be a dataclass; put @dataclass\(frozen=True\) above its class Bare"
    ):
        parse("bare()")

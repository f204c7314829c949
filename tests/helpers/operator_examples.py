"""Examples of every registered operator, for the tests that each of them must pass."""

import math

import torch

from bigain.operators import OPERATORS, Call, parse
from bigain.operators.base import as_window
from bigain.tokens.grid import Grid
from bigain.tokens.soft import equal_tiles
from helpers.references import random_tokens

GRIDS = [Grid(4, 4), Grid(6, 8), Grid(7, 5), Grid(9, 11)]
ROWS = 3

# name -> specs that compress; they must work on all of GRIDS
EXAMPLES = {
    "gated_merge": [
        "gated_merge(ratio=0.5)",
        "gated_merge(ratio=0.75)",
        "gated_merge(ratio=0.7, match='local')",
        "gated_merge(ratio=0.7, window=3, scorer='mean_cosine', anchor='highest')",
        "gated_merge(ratio=0.3, window=(1, 2), anchor='row_order', weighted=True)",
    ],
    "block_merge": [
        "block_merge(ratio=0.5)",
        "block_merge(ratio=0.5, window=3, scorer='l2_norm', tile='mean')",
        "block_merge(ratio=0.3, window=(1, 2), tile='min', weighted=True)",
    ],
    "tome": [
        "tome(ratio=0.5)",
        "tome(ratio=0.75, pattern='fixed', seed=3)",
        "tome(ratio=0.6, window=3, match='local')",
        "tome(ratio=0.4, window=(1, 2), pattern='corner', weighted=True)",
    ],
    "sito": [
        "sito(ratio=0.5)",
        "sito(ratio=0.7, noise=0, window=3)",
        "sito(ratio=0.75, noise=2.5, seed=4, weighted=True)",
    ],
    "toma": [
        "toma(ratio=0.5)",
        "toma(ratio=0.7, tiles=3, temperature=0.3, unmerge='pinv')",
        "toma(ratio=0.5, tiles=(1, 2), weighted=True)",
    ],
    "kv_downsample": [
        "kv_downsample()",
        "kv_downsample(factor=3, alpha=-0.5)",
        "kv_downsample(factor=2, alpha=(0.8, 1.2))",
    ],
    "todo": ["todo()", "todo(factor=3)"],
    "avg_pool": ["avg_pool()", "avg_pool(factor=4)"],
    "kv_select": ["kv_select(keep=0.5)", "kv_select(keep=0.1, prefer='detail', scorer='l1_norm')"],
}

# name -> a spec that leaves the tokens alone
NEUTRAL = {
    "gated_merge": "gated_merge(ratio=0)",
    "block_merge": "block_merge(ratio=0.0)",
    "tome": "tome(ratio=0)",
    "sito": "sito(ratio=0)",
    "toma": "toma(ratio=0)",
    "kv_downsample": "kv_downsample(factor=1)",
    "todo": "todo(factor=1)",
    "avg_pool": "avg_pool(factor=1)",
    "kv_select": "kv_select(keep=1)",
}

SPECS = [text for name in OPERATORS for text in EXAMPLES.get(name, [])]
SHORTENING = [text for text in SPECS if parse(text).reduces_queries]
SOFT = [text for text in SHORTENING if text.startswith("toma")]
HARD = [text for text in SHORTENING if text not in SOFT]
AVERAGING = [text for text in SHORTENING if not text.startswith("sito")]
KEYS_ONLY = [text for text in SPECS if not parse(text).reduces_queries]


def tokens(grid, rows=ROWS, channels=5, seed=0):
    return random_tokens(*grid, rows=rows, channels=channels, seed=seed)


def call(grid, rows=ROWS, draw=0, site=0, device="cpu"):
    t = torch.linspace(0, 999, rows).long().to(device)
    return Call(grid, t, torch.tensor([draw], device=device), site)


def removed_tokens(operator, grid):
    """How many tokens a shortening operator has to take away."""
    removed = int(grid.tokens * operator.ratio)
    if type(operator) is OPERATORS["block_merge"]:
        each = as_window(operator.window).tokens - 1
        return removed // each * each
    if type(operator) is OPERATORS["toma"]:
        tiles = equal_tiles(grid, as_window(operator.tiles)).cells(grid).tokens
        return removed // tiles * tiles
    return removed


def key_count(operator, grid):
    """How many keys an operator that leaves the queries alone has to give."""
    if type(operator) is OPERATORS["kv_select"]:
        return max(1, math.floor(grid.tokens * operator.keep))
    return (grid.height // operator.factor) * (grid.width // operator.factor)


def outputs(plan, x):
    """Everything a plan makes of tokens, in one list."""
    queries = plan.queries(x)
    return [queries, plan.context(x), plan.key_bias(x), plan.unmerge(queries)]


def same(first, second):
    """Equal to the last bit."""
    return all(
        a is b if a is None or b is None else torch.equal(a, b) and a.dtype == b.dtype
        for a, b in zip(first, second, strict=True)
    )

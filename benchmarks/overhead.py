"""What compression itself costs: plan + merge + unmerge of each operator beside tomesd's, on one tensor, interleaved.

    python benchmarks/overhead.py [--tokens 64x64] [--channels 320] [--rounds 15] [--threads 1] [--out FILE.json]

Ratios to tomesd in the same run are what counts: each round runs every method once, so a noisy machine hurts all
alike. SDPA with 5 heads, dense and on the merged tokens, is timed beside them to show what there is to save.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tomesd.merge import bipartite_soft_matching_random2d
from torch import Tensor
from torch.nn import functional as F

from bigain.operators import Call, parse
from bigain.tokens.grid import Grid

OPERATORS = (
    "gated_merge(ratio=0.7)",
    "block_merge(ratio=0.7)",
    "tome(ratio=0.7)",
    "sito(ratio=0.7)",
    "kv_downsample(factor=2)",
    "todo(factor=2)",
    "kv_select(keep=0.25)",
)


def tomesd_round(x: Tensor, grid: Grid) -> Tensor:
    merge, unmerge = bipartite_soft_matching_random2d(
        x, grid.width, grid.height, 2, 2, int(grid.tokens * 0.7), no_rand=True
    )
    return unmerge(merge(x))


def operator_round(spec: str, grid: Grid) -> Callable[[Tensor], Tensor]:
    operator, call = parse(spec), Call(grid, draw=torch.zeros((), dtype=torch.int64))

    def run(x: Tensor) -> Tensor:
        plan = operator.plan(x, call)
        short, context = plan.queries(x), plan.context(x)
        return plan.restore(short if context is None else x)

    return run


def attention(queries: int, keys: int, channels: int, heads: int = 5) -> Callable[[Tensor], Tensor]:
    q, k = (torch.randn(1, heads, n, channels // heads) for n in (queries, keys))
    return lambda _: F.scaled_dot_product_attention(q, k, k)


def milliseconds(function: Callable[[Tensor], Tensor], x: Tensor) -> float:
    start = time.perf_counter()
    function(x)
    return 1e3 * (time.perf_counter() - start)


def peak_bytes(function: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """The most memory that is allocated at once during a call, by the profiler's list of allocations."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function(x)
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="64x64")
    parser.add_argument("--channels", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    grid = Grid(*map(int, given.tokens.split("x")))
    x = torch.randn(1, grid.tokens, given.channels, generator=torch.Generator().manual_seed(0))

    kept = grid.tokens - int(0.7 * grid.tokens)
    methods: dict[str, Callable[[Tensor], Tensor]] = {"tomesd": lambda x: tomesd_round(x, grid)}
    methods |= {spec: operator_round(spec, grid) for spec in OPERATORS}
    methods["(attention, dense)"] = attention(grid.tokens, grid.tokens, given.channels)
    methods["(attention, merged .7)"] = attention(kept, kept, given.channels)
    methods["(attention, keys / 4)"] = attention(grid.tokens, grid.tokens // 4, given.channels)

    times: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(given.rounds + 2):
        for name, method in methods.items():
            taken = milliseconds(method, x)
            if number >= 2:
                times[name].append(taken)
    memory = {name: peak_bytes(method, x) for name, method in methods.items()}

    rows = []
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        ratio = statistics.median(a / b for a, b in zip(values, times["tomesd"], strict=True))
        rows.append(
            {
                "method": name, "ms": median, "ms_quartiles": [low, high], "to_tomesd": ratio,
                "peak_mb": memory[name] / 1e6, "peak_to_tomesd": memory[name] / memory["tomesd"],
            }
        )  # fmt: skip
        print(f"{name:28s} {median:8.1f} ms  x{ratio:5.2f} tomesd   peak {memory[name] / 1e6:7.1f} MB")  # noqa: T201
    record = {
        "tokens": given.tokens, "channels": given.channels, "rounds": given.rounds, "threads": given.threads,
        "torch": torch.__version__, "machine": platform.machine(), "rows": rows,
    }  # fmt: skip
    if given.out:
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What planning, merging and unmerging cost beside tomesd, at one attention: `python benchmarks/overhead.py`.

Ratios of times in the same round, medians over rounds; memory is the most that is allocated at once. Writes
`benchmarks/results/overhead.json`.
"""

import argparse
import json
import platform
import statistics
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from bigain.bench.memory import peak_bytes
from bigain.bench.stopwatch import seconds_of
from bigain.operators.base import Call, parse
from bigain.tokens.grid import Grid

RESULT = Path(__file__).parent / "results" / "overhead.json"
SIDES, CHANNELS, RATIO, ROUNDS = (32, 64, 96, 128), 320, 0.7, 9
OPERATORS = (
    f"gated_merge(ratio={RATIO}, match='exact')",
    f"gated_merge(ratio={RATIO}, match='local')",
    f"block_merge(ratio={RATIO})",
)
CPU = torch.device("cpu")


def ours(text: str, x: Tensor, side: int) -> Callable[[], Tensor]:
    operator = parse(text)
    call = Call(Grid(side, side), draw_key=torch.zeros(1, dtype=torch.int64))

    def run() -> Tensor:
        plan = operator.plan(x, call)
        return plan.unmerge(plan.queries(x))

    return run


def tomesd(x: Tensor, side: int) -> Callable[[], Tensor]:
    from tomesd.merge import bipartite_soft_matching_random2d

    generator = torch.Generator().manual_seed(0)

    def run() -> Tensor:
        removed = int(RATIO * side * side)
        merge, unmerge = bipartite_soft_matching_random2d(x, side, side, 2, 2, removed, False, generator)
        return unmerge(merge(x))

    return run


@torch.no_grad()
def measure(side: int) -> list[dict[str, object]]:
    x = torch.randn(1, side * side, CHANNELS, generator=torch.Generator().manual_seed(0))
    calls = {f"tomesd(ratio={RATIO})": tomesd(x, side)} | {text: ours(text, x, side) for text in OPERATORS}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(-1, ROUNDS):
        for name, call in calls.items():
            taken = seconds_of(call, CPU)
            if number >= 0:
                times[name].append(taken)
    peer, *_ = times.values()
    peaks = {name: peak_bytes(call, CPU) for name, call in calls.items()}
    most, *_ = peaks.values()
    return [
        {
            "tokens": side * side,
            "name": name,
            "seconds": statistics.median(own),
            "quartiles": [statistics.quantiles(own, n=4)[i] for i in (0, 2)],
            "to_tomesd": statistics.median(a / b for a, b in zip(own, peer, strict=True)),
            "peak_bytes": peaks[name],
            "peak_to_tomesd": peaks[name] / most,
        }
        for name, own in times.items()
    ]


def roof() -> dict[str, float]:
    """What this machine can do at best: operations a second of a large matrix product, bytes a second of a copy."""
    a, b, long = torch.randn(2048, 2048), torch.randn(2048, 2048), torch.randn(2**26)
    product = min(seconds_of(lambda: a @ b, CPU) for _ in range(ROUNDS))
    copy = min(seconds_of(long.clone, CPU) for _ in range(ROUNDS))
    return {"operations": 2 * 2048**3 / product, "bytes": 2 * long.nbytes / copy}


def main() -> None:
    torch.set_num_threads(1)
    rows = [row for side in SIDES for row in measure(side)]
    record = {
        "channels": CHANNELS, "batch": 1, "dtype": "float32", "rounds": ROUNDS,
        "machine": f"cpu, {platform.machine()}, 1 thread",
        "versions": {name: version(name) for name in ("bigain", "torch", "tomesd")}, "roof": roof(), "rows": rows,
    }  # fmt: skip
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    table = Table("tokens", "operator", "ms", "to tomesd", "peak MB", "to tomesd")
    for row in rows:
        cells = (1e3 * row["seconds"], row["to_tomesd"], row["peak_bytes"] / 1e6, row["peak_to_tomesd"])  # type: ignore[operator]
        table.add_row(str(row["tokens"]), str(row["name"]), *(f"{cell:.2f}" for cell in cells))
    Console().print(table)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()

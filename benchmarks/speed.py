"""The records behind docs/performance.md: `python benchmarks/speed.py [NAME …]` on a machine with nothing else to do.

Each is what `bigain bench --out` would write, kept as `benchmarks/results/bench-NAME.json`; those there are kept.
"""

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console

from bigain.bench.runners import Bench
from bigain.bench.speed import measure
from bigain.bench.speed_report import advice, parts_table, speed_json, speed_table

RESULTS = Path(__file__).parent / "results"
MERGES = ("tomesd(ratio=0.7)", "gated_merge(ratio=0.7, match='exact')", "gated_merge(ratio=0.7, match='local')")
MAIN = (*MERGES, "block_merge(ratio=0.7)", "kv_downsample(factor=2)")
BENCHES = {
    "sd2-64": Bench("sd2", MAIN, (64, 64), rounds=3),
    "sd2-128": Bench("sd2", (MERGES[0], MERGES[2]), (128, 128), rounds=2),
    "sd2-96": Bench("sd2", (MERGES[0], MERGES[2]), (96, 96), rounds=2),
    "compiled": Bench("sd2-top", (), (32, 32), rounds=15, compiled=True),
}


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    console = Console()
    for name in names or BENCHES:
        path = RESULTS / f"bench-{name}.json"
        if path.is_file():
            continue
        bench = BENCHES[name]
        with Console(stderr=True).status(name) as status:
            found = measure(bench, lambda text, name=name: status.update(f"{name}: {text}"))
        path.write_text(json.dumps(speed_json(found, bench), indent=1) + "\n")
        console.print(speed_table(found.rows, bench, found.machine), parts_table(found.rows), *advice(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", choices=[[], *BENCHES], default=[])
    main(parser.parse_args().name)

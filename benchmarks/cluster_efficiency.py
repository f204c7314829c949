"""Chunks a second of two workers with one thread each, beside one: how much of twice the speed is there.

A bundled model classifies on a Ray cluster of this machine, in interleaved rounds; the time runs from when all workers
have loaded the model until the last result is in the record. `python benchmarks/cluster_efficiency.py` writes
`benchmarks/results/cluster-efficiency.json`. The machine must be idle.
"""

import argparse
import json
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from rich.progress import track

from bigain.bench.ratios import compared
from bigain.cluster.connect import ClusterOptions, connected
from bigain.cluster.workers import RayCrew
from bigain.experiments.distributed import compute, recipe
from bigain.experiments.experiment import build_experiment
from bigain.experiments.machine import environment
from bigain.experiments.run import load_model
from bigain.experiments.runner import Run

RESULT = Path(__file__).parent / "results" / "cluster-efficiency.json"
CONTENTS = {
    "title": "Efficiency",
    "model": "fashion-unet",
    "data": "fashion-sample",
    "tasks": ["classify"],
    "policy": "exhaustive(5)",
    "rows": [{"operator": "none"}, {"operator": "kv_downsample(factor=2)"}],
}


def seconds(ray: Any, images: int, workers: int) -> float:
    """Seconds of all chunks on so many workers."""
    contents = {**CONTENTS, "n": images}
    experiment = build_experiment(contents)
    options = ClusterOptions("local", workers=workers)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.start(experiment, Path(folder), load_model(experiment, "cpu", "cpu"))
        crew = RayCrew(ray, options, recipe(ray, run, contents, options))
        with closing(run.results), closing(crew):
            crew.start()
            while crew.size()[0] < workers:
                crew.wait(0.2)
            started = time.perf_counter()
            failed = compute(run, crew, options, lambda chunk, count, status: None)
            taken = time.perf_counter() - started
            assert not failed
            return taken


def main(images: int, rounds: int, result: Path) -> None:
    torch.set_num_threads(1)
    times: dict[int, list[float]] = {1: [], 2: []}
    with connected(ClusterOptions("local")) as ray:
        for number in track(range(rounds), "rounds"):
            for workers in (1, 2) if number % 2 else (2, 1):
                times[workers].append(seconds(ray, images, workers))
    ratio = compared(times[1], [2 * taken for taken in times[2]])
    denoiser = load_model(build_experiment({**CONTENTS, "n": images}), "cpu", "cpu")
    record = {
        "images": images,
        "rounds": rounds,
        "seconds": {str(workers): statistics.median(own) for workers, own in times.items()},
        "efficiency": ratio.as_json(),
        "facts": environment(denoiser),
    }
    result.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--result", type=Path, default=RESULT)
    given = parser.parse_args()
    main(given.images, given.rounds, given.result)

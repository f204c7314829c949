"""What the driver of a cluster can do, with 200 simulated workers, a network and a model that cost nothing.

Three parts: the schedule alone for ten million decisions, with the memory of its process; the writer, which puts
chunks of 16 decisions into a record as fast as it can; and the two with Ray itself between processes that compute
nothing. `python benchmarks/cluster_scale.py` writes `benchmarks/results/cluster-scale.json`.
"""

import argparse
import itertools
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from bigain.cluster.connect import ClusterOptions, connected
from bigain.cluster.crew import Event, Finished
from bigain.cluster.pool import Pool
from bigain.cluster.schedule import Schedule
from bigain.cluster.workers import RayCrew
from bigain.experiments.chunks import Chunk, ChunkResult, all_chunks
from bigain.experiments.experiment import Experiment, build_experiment
from bigain.experiments.folder import FILE, RunFolder
from bigain.experiments.rows import DecisionRow
from bigain.experiments.runner import plan
from bigain.experiments.store import Store

RESULT = Path(__file__).parent / "results" / "cluster-scale.json"
SETTINGS, WORKERS, CLASSES, TRIALS = 34, 200, 10, 20
POINTS = 10  # at which the writer's speed is noted


class FreeCrew:
    """Workers that have finished as soon as they are asked."""

    def __init__(self, workers: int, compute: Callable[[Any], Any]) -> None:
        self.waiting: dict[int, Any] = {}
        self.all, self.compute = range(workers), compute

    def idle(self) -> Iterator[tuple[int, str]]:
        yield from ((worker, "here") for worker in self.all if worker not in self.waiting)

    def node_of(self, worker: int) -> str:
        return "here"

    def give(self, worker: int, payload: Any) -> None:
        self.waiting[worker] = payload

    def wait(self, seconds: float) -> list[Event]:
        done, self.waiting = self.waiting, {}
        return [Finished(worker, self.compute(payload)) for worker, payload in done.items()]

    def size(self) -> tuple[int, int]:
        return len(self.all), 1


class Nothing:
    """What a worker of Ray holds here."""

    def check(self) -> None: ...

    def halve(self) -> None: ...

    def compute(self, payload: Any) -> Any:
        return payload


def sweep(decisions: int) -> Experiment:
    """34 settings with so many decisions altogether; no model is loaded."""
    rows = {"name": "merge", "operator": "gated_merge(ratio={r})", "r": [k / 100 for k in range(1, SETTINGS + 1)]}
    words = {"title": "Scale", "model": "fashion-unet", "data": "fashion-sample", "tasks": ["classify"]}
    return build_experiment({**words, "n": max(16, decisions // SETTINGS), "rows": [rows]})


def name_of(number: int) -> str:
    return f"val/n{number % 1000:08d}/image-{number:08d}.JPEG"


def results_of(chunk: Chunk) -> ChunkResult:
    """Rows as large as real ones: rounded errors of all classes for one trial, of three for the others."""
    rows = []
    for number in range(chunk.first, chunk.last):
        rng = np.random.default_rng(number)
        errors = rng.random((CLASSES, TRIALS))
        errors[3:, 1:] = np.nan
        chances = rng.dirichlet(np.ones(CLASSES))
        order = tuple(np.argsort(-chances).tolist())
        rows.append(
            DecisionRow(
                name_of(number),
                (number % CLASSES,),
                order[0],
                order,
                tuple(chances.tolist()),
                67,
                tuple(range(25, 1000, 975 // TRIALS))[:TRIALS],
                errors,
                1.0,
            )  # fmt: skip
        )
    return ChunkResult(rows)


def schedule_alone(decisions: int) -> dict[str, Any]:
    """Seconds and memory of the driver without a record."""
    before = memory()
    chunks = all_chunks(sweep(decisions))
    listed = memory()
    crew = FreeCrew(WORKERS, lambda payload: None)
    started = time.perf_counter()
    count = sum(1 for _ in Pool(Schedule(range(len(chunks))), crew, chunks.__getitem__).outcomes())
    seconds = time.perf_counter() - started
    return {
        "decisions": decisions, "chunks": count, "chunks_per_second": count / seconds, "bytes_before": before,
        "bytes_listed": listed, "bytes": memory(),
    }  # fmt: skip


def writer_alone(decisions: int, folder: Path) -> dict[str, Any]:
    """Chunks a second of the writer as the record grows, its size, and the memory of the driver."""
    experiment = sweep(decisions)
    names = [name_of(number) for number in range(max(setting.n for setting in experiment.settings))]
    chunks = all_chunks(experiment)
    with closing(Store(folder / FILE)) as store:
        ids = store.begin(experiment, None, {}, plan(experiment, names))
        place = RunFolder(folder, store, ids, names)
        bounds = [len(chunks) * part // POINTS for part in range(POINTS + 1)]
        pairs = track(list(itertools.pairwise(bounds)), "writing", console=Console(stderr=True))
        speeds = [written(place, chunks[start:end]) for start, end in pairs]
        started = time.perf_counter()
        there = sum(place.done(chunk) for chunk in chunks)
        asked = time.perf_counter() - started
        assert there == len(chunks)
    size = (folder / FILE).stat().st_size
    count = sum(chunk.last - chunk.first for chunk in chunks)
    return {
        "decisions": count, "chunks_per_second": speeds, "bytes_a_decision": size / count, "bytes": memory(),
        "asked_per_second": len(chunks) / asked,
    }  # fmt: skip


def written(place: RunFolder, chunks: list[Chunk]) -> float:
    """Chunks a second; making the rows is the workers' time and not counted."""
    seconds = 0.0
    for chunk in chunks:
        result = results_of(chunk)
        started = time.perf_counter()
        if not place.done(chunk):
            place.put(chunk, result)
        seconds += time.perf_counter() - started
    return len(chunks) / seconds


def through_ray(chunks: int, workers: int) -> dict[str, Any]:
    """Chunks a second through Ray, from workers that return what they get."""
    experiment = sweep(16 * SETTINGS)
    result = results_of(all_chunks(experiment)[0])
    options = ClusterOptions("local", workers=workers)
    with connected(options) as ray:
        crew = RayCrew(ray, options, Nothing)
        with closing(crew):
            crew.start()
            while crew.size()[0] < min(workers, sum(node.room for node in crew.nodes.values())):
                crew.wait(0.2)
            started = time.perf_counter()
            count = sum(1 for _ in Pool(Schedule(range(chunks)), crew, lambda job: result).outcomes())
            return {
                "workers": crew.size()[0],
                "chunks": count,
                "chunks_per_second": count / (time.perf_counter() - started),
            }


def memory() -> int:
    """The most that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform == "linux" else 1)


def alone(part: str, count: int) -> dict[str, Any]:
    """A part in a process of its own, as memory is counted for all that a process has done."""
    done = subprocess.run([sys.executable, __file__, "--part", part, str(count)], check=True, stdout=subprocess.PIPE)
    return dict(json.loads(done.stdout))


def run_part(part: str, count: int) -> dict[str, Any]:
    if part == "schedule":
        return schedule_alone(count)
    if part == "ray":
        return through_ray(count, 2)
    with tempfile.TemporaryDirectory() as folder:
        return writer_alone(count, Path(folder))


def main(decisions: int, rows: int, chunks: int, result: Path) -> None:
    counts = {"schedule": decisions, "writer": rows, "ray": chunks}
    record = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "workers": WORKERS,
        "settings": SETTINGS,
        "versions": {name: version(name) for name in ("bigain", "ray")},
        **{part: alone(part, count) for part, count in counts.items()},
    }
    result.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=10_000_000, help="of the schedule")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the writer")
    parser.add_argument("--chunks", type=int, default=5_000, help="through Ray")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        sys.stdout.write(json.dumps(run_part(given.part[0], int(given.part[1]))))
    else:
        main(given.decisions, given.rows, given.chunks, given.result)

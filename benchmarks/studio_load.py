"""Many visitors of the studio at once: `python benchmarks/studio_load.py`, on loopback only.

Each visitor classifies, looks inside and generates, one after the other, all visitors at the same time. Before that one
visitor does the same alone. Writes `benchmarks/results/studio-load.json`.
"""

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from gradio_client import Client

RESULT = Path(__file__).parent / "results" / "studio-load.json"
VISITORS, ROUNDS = 20, 2
LONGEST = 900  # seconds until everything ends
MODEL = "fashion-unet"
OPERATOR = ("gated_merge", 0.7, 2, "")
REQUESTS: dict[str, tuple[Any, ...]] = {
    "classify": (MODEL, "balanced", "", "{}", *OPERATOR),
    "look": (MODEL, None, 150, *OPERATOR),
    "generate": (MODEL, ["bag", "dress"], "", 10, 0, "none", 0.7, 2, "", *OPERATOR),
}
RUN = "from bigain.cli import app; app(prog_name='bigain')"


class Answer(NamedTuple):
    """One request: seconds until the first and the last of what it showed, and what went wrong."""

    request: str
    first: float
    last: float
    error: str | None


def start() -> tuple[subprocess.Popen[str], str, float]:
    """A studio, its address, and the seconds until it answered."""
    began = time.perf_counter()
    words = [sys.executable, "-c", RUN, "studio", "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return server, found[0], time.perf_counter() - began
    raise RuntimeError("the studio did not start")


def ask(client: Client, request: str) -> Answer:
    began = time.perf_counter()
    first, error = None, None
    try:
        job = client.submit(*REQUESTS[request], api_name=f"/{request}")
        for _ in job:
            first = first or time.perf_counter()
        job.result(timeout=LONGEST)
    except Exception as failure:  # noqa: BLE001 - whatever it is, it is counted
        error = f"{type(failure).__name__}: {failure}"
    last = time.perf_counter()
    return Answer(request, (first or last) - began, last - began, error)


def visit(url: str, rounds: int) -> list[Answer]:
    client = Client(url, verbose=False, analytics_enabled=False)
    return [ask(client, request) for _ in range(rounds) for request in REQUESTS]


class Memory(threading.Thread):
    """The memory of a process, watched until it is told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.process = psutil.Process(pid)
        self.seen = [self.now()]
        self.over = threading.Event()

    def now(self) -> float:
        return self.process.memory_info().rss / 2**20

    def run(self) -> None:
        while not self.over.wait(0.2):
            self.seen.append(self.now())


def summary(answers: list[Answer]) -> list[dict[str, Any]]:
    """Times of each kind of request."""
    rows = []
    for request in REQUESTS:
        own = [answer for answer in answers if answer.request == request]
        first, last = (sorted(getattr(answer, name) for answer in own) for name in ("first", "last"))
        rows.append({
            "request": request, "n": len(own), "failed": sum(answer.error is not None for answer in own),
            "first": statistics.median(first), "last": statistics.median(last), "longest": last[-1],
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python benchmarks/studio_load.py", description=__doc__)
    parser.add_argument("--visitors", type=int, default=VISITORS, help="visitors at once")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each asks for everything")
    parser.add_argument("--out", type=Path, default=RESULT, help="the JSON file to write")
    options = parser.parse_args()
    server, url, seconds = start()
    stop = threading.Timer(LONGEST, server.kill)
    stop.daemon = True
    stop.start()
    try:
        visit(url, 1)  # models are loaded, costs are counted
        alone = visit(url, options.rounds)
        memory = Memory(server.pid)
        memory.start()
        with ThreadPoolExecutor(options.visitors) as pool:
            together = [answer for own in pool.map(lambda _: visit(url, options.rounds), range(options.visitors))
                        for answer in own]  # fmt: skip
        memory.over.set()
        after = memory.now()
    finally:
        server.terminate()
        server.wait(30)
    record = {
        "visitors": options.visitors,
        "rounds": options.rounds,
        "starting": seconds,
        "machine": f"cpu, {platform.machine()}, {psutil.cpu_count()} cores",
        "versions": {name: version(name) for name in ("bigain", "gradio", "torch")},
        "megabytes": {"before": memory.seen[0], "peak": max(memory.seen), "after": after},
        "errors": sorted({answer.error for answer in [*alone, *together] if answer.error}),
        "alone": summary(alone),
        "together": summary(together),
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""A Ray cluster of three nodes in this machine, what happens to its workers, and an operator that obeys each node."""

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

SMALL = 80 * 2**20  # bytes of a node's object store

# ToMe that is slow, short of memory or broken, and images that are not there, where a node's environment says so
OPERATOR = """
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from bigain.data import DATASETS
from bigain.data.fashion_mnist import load_fashion_sample
from bigain.operators import OPERATORS, ToMe


@OPERATORS.register("moody")
@dataclass(frozen=True)
class Moody(ToMe):
    '''ToMe that does what the environment says.'''

    broken: bool = False

    def plan(self, x, call):
        if self.broken:
            raise RuntimeError("moody will not")
        time.sleep(float(os.environ.get("MOODY_SECONDS", "0")))
        rows = int(os.environ.get("MOODY_ROWS", "0"))
        if "MOODY_LOG" in os.environ:
            with (Path(os.environ["MOODY_LOG"]) / str(rows)).open("a") as log:
                log.write(f"{len(x)}\\n")
        if rows and len(x) > rows:
            raise torch.OutOfMemoryError("moody has no room")
        return super().plan(x, call)


@DATASETS.register("moody-data")
def moody_data():
    '''Borrowed images.'''
    if "MOODY_LOST" in os.environ:
        raise FileNotFoundError("no folder /data/photos")
    return load_fashion_sample()
"""


@contextmanager
def three_nodes() -> Iterator[Cluster]:
    """Three nodes, each with room for one worker."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": SMALL, "include_dashboard": False, "node_name": "one"},
    )
    try:
        for name in ("two", "three"):
            add(cluster, name)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add(cluster: Cluster, name: str, **environment: str) -> Any:
    return cluster.add_node(num_cpus=1, object_store_memory=SMALL, node_name=name, env_vars=environment)


def workers() -> list[psutil.Process]:
    """The processes of our actors, and of nobody else's: descendants of this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name().startswith("ray::Worker"):
                found.append(process)
        except psutil.Error:
            continue
    return found


class Chaos:
    """Kills workers at random moments while a process computes, with other mischief between."""

    def __init__(self, seed: int, kills: int, between: dict[int, Callable[[], object]]) -> None:
        self.lot, self.kills, self.between = random.Random(seed), kills, between
        self.killed = 0

    def rage(self, driver: subprocess.Popen[str]) -> None:
        while self.killed < self.kills and driver.poll() is None:
            time.sleep(self.lot.uniform(0.1, 1.0))
            victims = workers()
            if victims:
                self.kill(self.lot.choice(victims))

    def kill(self, victim: psutil.Process) -> None:
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return
        self.killed += 1
        self.between.pop(self.killed, lambda: None)()


def wait_until(what: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def write_operator(folder: Path) -> Path:
    path = folder / "moody.py"
    path.write_text(OPERATOR)
    return path

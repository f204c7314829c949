"""`bigain run --cluster` on three nodes: the record of one process, whatever happens to the workers."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bigain.experiments.folder import FILE
from bigain.experiments.store import Store
from cluster.conftest import run
from helpers.own_files import forgetting
from helpers.runs import record

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with forgetting(tmp_path):
        yield tmp_path


def rows(folder: Path) -> dict[str, Any]:
    with closing(Store(folder / FILE, read_only=True)) as store:
        return record(store)


def count(folder: Path) -> int:
    return len(rows(folder)["decisions"]) if (folder / FILE).exists() else 0


def begin(toml: Path, folder: Path, address: str) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    program = "from bigain.cli import app; app(prog_name='bigain')"
    words = ["run", str(toml), "--out", str(folder), "--cluster", address]
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program, *words], stdout=pipe, stderr=subprocess.STDOUT, text=True)


@contextmanager
def ended(driver: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever fails inside, the process does not outlive the `with` block."""
    try:
        yield
    finally:
        driver.kill()
        driver.communicate()


def test_kills_nodes_that_go_and_come_a_slow_one_and_a_killed_driver(cluster: Any, write: Any, place: Path) -> None:
    from helpers.clusters import Chaos, add, wait_until

    toml = write(place, n=96, tasks=["classify", "generate"], ratios=[0.2, 0.3, 0.4, 0.5])
    run("run", toml, "--out", place / "whole", "--threads", 1)
    whole = rows(place / "whole")
    slow = add(cluster, "slow", MOODY_SECONDS="0.1")
    driver = begin(toml, place / "run", cluster.address)
    with ended(driver):
        wait_until(lambda: driver.poll() is not None or count(place / "run") > 16)
        assert driver.poll() is None, "it should be killed in the middle"
    assert 16 < count(place / "run") < len(whole["decisions"])
    late: list[Any] = []
    mischief = {3: lambda: cluster.remove_node(slow), 5: lambda: late.append(add(cluster, "late", MOODY_SECONDS="0.1"))}
    chaos = Chaos(0, 10, mischief)
    driver = begin(toml, place / "run", cluster.address)
    with ended(driver):
        chaos.rage(driver)
        output, _ = driver.communicate(timeout=300)
        assert driver.returncode == 0, output
    cluster.remove_node(late[0])
    assert chaos.killed == 10
    assert rows(place / "run") == whole

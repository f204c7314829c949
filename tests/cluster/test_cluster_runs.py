"""The commands with `--cluster` on three nodes: the results of one process, whatever happens to the workers."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bigain.experiments.folder import FILE
from bigain.experiments.rows import unpack
from bigain.experiments.schema import RecordError
from bigain.experiments.store import Store
from helpers.commands import picture_folders, run, run_json
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
    try:
        return len(rows(folder)["decisions"])
    except RecordError:  # there is none yet, or it has just begun
        return 0


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


def test_what_always_fails_is_named_and_skipped(cluster: Any, write: Any, place: Path) -> None:
    toml = write(place, operator="moody(ratio={ratio}, broken=True)")
    shown = run("run", toml, "--out", place / "run", "--cluster", cluster.address, "--workers", 1, code=1)
    for images in ("0 to 15", "16 to 19"):
        assert f"skipped: classify images {images} of moody, ratio 0.3: RuntimeError: moody will not, at moody" in shown
    assert shown.count("(4 attempts)") == 2
    found = rows(place / "run")
    assert len(found["decisions"]) == 20  # of the other row
    assert not found["measures"]  # they wait for what is missing


def test_memory_of_one_worker_is_its_own_business(cluster: Any, write: Any, place: Path) -> None:
    from helpers.clusters import add

    toml = write(place, n=48, ratios=[0.2, 0.3, 0.4, 0.5])
    run("run", toml, "--out", place / "whole", "--threads", 1)
    nodes = [add(cluster, f"room {rows}", MOODY_ROWS=rows, MOODY_LOG=str(place)) for rows in ("8", "999")]
    run("run", toml, "--out", place / "run", "--cluster", cluster.address)
    for node in nodes:
        cluster.remove_node(node)
    sizes = {name: [int(line) for line in (place / name).read_text().split()] for name in ("8", "999")}
    assert [n for n in sizes["8"] if n > 8] == [30, 10]  # twice in all chunks, at the beginning
    assert {n for n in sizes["999"] if n > 8} == {30, 10}  # whole images to the end
    for before, after in zip(rows(place / "whole")["decisions"], rows(place / "run")["decisions"], strict=True):
        assert before[:4] == after[:4]
        for mine, other in zip(*(unpack(row[8], 10) for row in (before, after)), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-4)


def test_nodes_that_lack_something_are_refused_by_name(cluster: Any, write: Any, place: Path) -> None:
    from helpers.clusters import add

    metadata = place / "old" / "diffusers-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: diffusers\nVersion: 0.1\n")
    toml = write(place, data="moody-data")
    words = ("run", toml, "--out", place / "run", "--cluster", cluster.address)
    old = add(cluster, "old", PYTHONPATH=os.pathsep.join([str(place / "old"), os.environ.get("PYTHONPATH", "")]))
    assert re.search(r"node old \([\d.]+\) has diffusers 0.1 instead of \d", run(*words, code=2))
    cluster.remove_node(old)
    lost = add(cluster, "lost", MOODY_LOST="1")
    shown = run(*words, code=2)
    cluster.remove_node(lost)
    assert "give every node the same packages, model and data: node lost (" in shown
    assert "no folder /data/photos" in shown
    assert count(place / "run") == 0


def photos(place: Path) -> Path:
    """Images in folders, and one that is none."""
    picture_folders(place / "photos", 20)
    none = next((place / "photos").iterdir()) / "none.png"
    none.write_bytes(b"no picture")
    return none


def test_models_and_images_can_be_sent(cluster: Any, write: Any, model: Path, place: Path) -> None:
    none = photos(place)
    toml = write(place, n=21, data=f"folder('{place / 'photos'}')")
    run("run", toml, "--out", place / "whole", "--threads", 1, code=1)
    run("run", toml, "--out", place / "run", "--cluster", cluster.address, "--send", "--workers", 1, code=1)
    assert rows(place / "run") == rows(place / "whole")
    assert str(none) in rows(place / "run")["skipped"][0][1]


def test_the_other_commands(cluster: Any, model: Path, place: Path) -> None:
    photos(place)
    classify = ("classify", place / "photos", "--model", model, "--threads", 1, "--policy", "exhaustive(1)")
    one, many = (
        run_json(*classify, *more, code=1) for more in ((), ("--cluster", cluster.address, "--workers", 1, "--send"))
    )
    assert many["unreadable"] == one["unreadable"]
    for before, after in zip(one["results"], many["results"], strict=True):
        assert (before["path"], before["label"], before["truth"]) == (after["path"], after["label"], after["truth"])
        assert before["probability"] == pytest.approx(after["probability"], abs=1e-5)
    generate = ("generate", "--model", model, "--threads", 1, "--count", 45, "--num-inference-steps", 1, "--out")
    run(*generate, place / "one")
    run(*generate, place / "many", "--cluster", cluster.address, "--workers", 1)
    files = sorted(path.name for path in (place / "one").iterdir())
    assert len(files) == 46
    assert all((place / "one" / name).read_bytes() == (place / "many" / name).read_bytes() for name in files)


def test_no_cluster_is_said_in_words(write: Any, place: Path) -> None:
    toml = write(place)
    assert "--workers needs --cluster" in run("run", toml, "--workers", 2, code=2)
    assert "use either --cluster or --shard" in run("run", toml, "--cluster", "local", "--shard", "1/2", code=2)

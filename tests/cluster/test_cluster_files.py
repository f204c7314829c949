"""The files in examples/cluster: they can be read, and their commands are what the command line takes."""

import json
import os
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import ray
import typer
import yaml

from bigain.cli import app
from bigain.experiments.folder import FILE
from bigain.experiments.store import Store
from helpers.commands import run
from helpers.doc_pages import ROOT
from helpers.runs import record

FILES = ROOT / "examples" / "cluster"
VERSION = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split("\n") if "==" in line)["ray"]


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a command, read by the command line itself."""
    group: Any = typer.main.get_command(app)
    command = group.commands[words[1]]
    return command.make_context(words[1], words[2:], parent=click.Context(group)).params


def commands(text: str) -> list[list[str]]:
    """The bigain commands of a script."""
    text = text.replace("\\\n", " ").replace("${DEVICE:-cuda}", "cpu").replace("${SLURM_CPUS_PER_TASK:-4}", "4")
    lines = [line for line in text.splitlines() if "bigain run" in line and not line.startswith("#")]
    return [shlex.split(line[line.index("bigain run") :]) for line in lines]


def test_the_job_of_kuberay() -> None:
    job, volume = yaml.safe_load_all((FILES / "rayjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"], volume["kind"]) == ("ray.io/v1", "RayJob", "PersistentVolumeClaim")
    options = parsed(shlex.split(job["spec"]["entrypoint"].replace("cuda", "cpu")))
    assert options["cluster"] == "auto"
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["rayVersion"] == VERSION
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        assert [claim["persistentVolumeClaim"]["claimName"] for claim in pod["volumes"]] == [volume["metadata"]["name"]]
        (mount,) = pod["containers"][0]["volumeMounts"]
        assert str(options["experiment"]).startswith(mount["mountPath"])
        assert str(options["folder"]).startswith(mount["mountPath"])
    assert groups[0]["rayStartParams"]["num-cpus"] == "0"
    assert groups[1]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_launcher_of_machines() -> None:
    found = yaml.safe_load((FILES / "vms.yaml").read_text())
    jsonschema.validate(found, json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text()))
    assert found["max_workers"] == len(found["provider"]["worker_ips"])
    starts = [line for key in ("head", "worker") for line in found[f"{key}_start_ray_commands"] if "ray start" in line]
    assert [("--head" in line, "RAY_USAGE_STATS_ENABLED=0" in line) for line in starts] == [(True, True), (False, True)]


@pytest.mark.parametrize("name", ["slurm-array.sh", "slurm-ray.sh"])
def test_scripts_are_bash_and_their_commands_are_known(name: str) -> None:
    path = FILES / name
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", str(path)], check=True)
    (words,) = commands(path.read_text())
    options = parsed(words)
    assert options["shard"] == ("auto" if name == "slurm-array.sh" else None)
    assert options["cluster"] == (None if name == "slurm-array.sh" else "auto")


@pytest.mark.slow
def test_the_array_script_as_slurm_runs_it(model: Path, tmp_path: Path) -> None:
    """Its tasks one by one, with the variables that Slurm sets."""
    toml = tmp_path / "tiny.toml"
    toml.write_text(
        f'title = "Tiny"\nmodel = "{model}"\ndata = "fashion-sample"\nn = 40\ntasks = ["classify"]\n'
        'policy = "exhaustive(1)"\n[[rows]]\noperator = "none"\n'
    )
    shim = tmp_path / "bin" / "bigain"
    shim.parent.mkdir()
    program = "from bigain.cli import app; app(prog_name='bigain')"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
    shim.chmod(0o755)
    for task in ("0", "1"):
        slurm = {"ID": task, "COUNT": "2", "MIN": "0", "MAX": "1", "STEP": "1"}
        own = {f"SLURM_ARRAY_TASK_{name}": value for name, value in slurm.items()}
        path = os.pathsep.join([str(shim.parent), os.environ["PATH"]])
        environment = os.environ | own | {"DEVICE": "cpu", "SLURM_CPUS_PER_TASK": "1", "PATH": path}
        subprocess.run([str(FILES / "slurm-array.sh"), str(toml)], cwd=tmp_path, env=environment, check=True)
    shares = sorted((tmp_path / "runs" / "tiny").iterdir())
    assert [share.name for share in shares] == ["shard-1-of-2", "shard-2-of-2"]
    folder = tmp_path / "runs" / "tiny"
    shown = run("merge", *shares[:1], "--out", folder, code=1)
    assert "missing: none: 16 of 40 decisions missing: results of shard 2/2" in shown
    assert "2 records joined" not in shown
    assert "40 decisions" in run("merge", *shares, "--out", folder)
    run("run", toml, "--out", folder, "--threads", 1)
    run("run", toml, "--out", tmp_path / "whole", "--threads", 1)
    with (
        closing(Store(folder / FILE, read_only=True)) as joined,
        closing(Store(tmp_path / "whole" / FILE, read_only=True)) as whole,
    ):
        assert record(joined) == record(whole)

"""What a session ran on, what else ran beside it, and whether its times can be read as speed."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from bigain.denoisers.base import Denoiser

BUSY = 0.5  # processes beyond our own threads that spoil a time


def environment(denoiser: Denoiser) -> dict[str, Any]:
    """What a reader of the results should know of the machine and the program."""
    return {
        "bigain": version("bigain"),
        "torch": torch.__version__,
        "diffusers": version("diffusers"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        "device": str(denoiser.device),
        "dtype": str(denoiser.dtype).removeprefix("torch."),
        "revision": revision(),
    }


def revision() -> str | None:
    """The git revision of the program, where it runs from a clone."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Watch:
    """Looks at the load of the machine after each chunk; `summary` goes into the record."""

    def __init__(self) -> None:
        self.chunks = 0
        self.beyond: float | None = None

    def look(self) -> None:
        """The load average of the last minute, less the threads that are ours."""
        self.chunks += 1
        if hasattr(os, "getloadavg"):
            self.beyond = max(self.beyond or 0.0, os.getloadavg()[0] - torch.get_num_threads())

    def summary(self) -> dict[str, Any]:
        beyond = None if self.beyond is None else round(self.beyond, 2)
        return {"chunks": self.chunks, "until": now(), "load_beyond": beyond}


def why_no_speed(sessions: Sequence[dict[str, Any]]) -> str | None:
    """A few words on why times of these sessions are no speeds, or None where they are."""
    worked = [session for session in sessions if session.get("chunks") != 0]
    if any(session.get("load_beyond") is None for session in worked) or not worked:
        return "load not recorded"
    if any(session["load_beyond"] > BUSY for session in worked):
        return "machine was busy"
    if any(overlap(a, b) for a, b in combinations(worked, 2)):
        return "processes ran side by side"
    if len({(session.get("machine"), session.get("device")) for session in worked}) > 1:
        return "on several machines"
    return None


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two sessions worked at the same time; one that was killed worked until its last chunk."""
    ends = [session["ended"] or session["until"] for session in (a, b)]
    return bool(a["started"] < ends[1] and b["started"] < ends[0])

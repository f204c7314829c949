"""The machine of a session, its load, and whether its times are reliable."""

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
    """Versions, device and machine, for readers of the results."""
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
    """The git revision, if this is a clone."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Watch:
    """Checks the load of the machine after each chunk; `summary` goes into the record."""

    def __init__(self) -> None:
        self.chunks = 0
        self.beyond: float | None = None

    def look(self) -> None:
        """Record the load average of the last minute, minus our own threads."""
        self.chunks += 1
        if hasattr(os, "getloadavg"):
            self.beyond = max(self.beyond or 0.0, os.getloadavg()[0] - torch.get_num_threads())

    def summary(self) -> dict[str, Any]:
        beyond = None if self.beyond is None else round(self.beyond, 2)
        return {"chunks": self.chunks, "until": now(), "load_beyond": beyond}


def why_no_speed(sessions: Sequence[dict[str, Any]]) -> str | None:
    """Why the times of these sessions are not reliable, or None if they are."""
    worked = [session for session in sessions if session.get("chunks") != 0]
    if any("workers" in session for session in worked):
        return "computed on a cluster"
    if any(session.get("load_beyond") is None for session in worked) or not worked:
        return "load not recorded"
    if any(session["load_beyond"] > BUSY for session in worked):
        return "machine was busy"
    if any(overlap(a, b) for a, b in combinations(worked, 2)):
        return "several processes ran at once"
    if len({(session.get("machine"), session.get("device")) for session in worked}) > 1:
        return "several machines"
    return None


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two sessions overlap in time; a killed one ended with its last chunk."""
    ends = [session["ended"] or session["until"] for session in (a, b)]
    return bool(a["started"] < ends[1] and b["started"] < ends[0])

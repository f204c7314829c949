"""Connect to a Ray cluster, or start one of this machine for as long as it is used."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

STORE = 200 * 2**20  # bytes of the object store of a local cluster
LOCAL, AUTO = "local", "auto"


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster, and how it is used.

    `address` is that of a running cluster, "auto" for the one of this machine's `ray start` or `RAY_ADDRESS`, or
    "local" to start one with the CPUs and GPUs of this machine. A worker has a GPU of its own, or `threads` CPUs.
    """

    address: str
    device: str = "cpu"
    threads: int = 1
    workers: int | None = None  # at most
    send: bool = False  # model and data through the cluster, instead of read on each node

    @property
    def kind(self) -> str:
        """`cuda:1` -> "cuda": Ray chooses which one."""
        return self.device.partition(":")[0]


def import_ray() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise ImportError(f'--cluster needs Ray ({error}); pip install "bigain[cluster]"') from error
    return ray


@contextmanager
def connected(options: ClusterOptions) -> Iterator[ModuleType]:
    """Ray, connected inside the `with` block; a connection that exists is used and kept."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    with own_signals():
        start(ray, options)
    try:
        yield ray
    finally:
        ray.shutdown()


def start(ray: ModuleType, options: ClusterOptions) -> None:
    own = {"include_dashboard": False, "object_store_memory": STORE} if options.address == LOCAL else {}
    try:
        ray.init(address=options.address, log_to_driver=False, logging_level="ERROR", configure_logging=True, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = {AUTO: "on this machine or at RAY_ADDRESS", LOCAL: "on this machine"}.get(
            options.address, f"at {options.address}"
        )
        raise ConnectionError(
            f"no Ray cluster can be used {where} ({' '.join(str(error).split())}); start one with `ray start --head`, "
            "or use --cluster local"
        ) from error


@contextmanager
def own_signals() -> Iterator[None]:
    """Keep our own handling of SIGTERM, which Ray replaces by its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""Workers as Ray actors: each holds what it computes with, and one job at a time."""

import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from bigain.cluster.connect import ClusterOptions
from bigain.cluster.crew import Died, Event, Finished, Raised
from bigain.cluster.nodes import Node, alive, first_line, on_node, unfit

LOOK = 1.0  # seconds between looks at which nodes there are
FAILURES = 3  # in a row, after which a worker is started anew
STARTS = 3  # of workers of a node that died before they were ready, after which it is left out
MEMORY = ("running low on memory", "OUT_OF_MEMORY")  # in what Ray says of a worker that it killed for it


class Workload(Protocol):
    """What a worker holds."""

    def check(self) -> None:
        """Raise if this node would compute something else than the others; asked once a node."""

    def compute(self, payload: Any) -> Any:
        """The result of a job."""

    def halve(self) -> None:
        """Use half the memory from now on."""


class Worker:
    """The actor."""

    def open(self, make: Callable[[], Workload], threads: int, check: bool, halvings: int) -> str | None:
        """Load what is computed with; -> why this node cannot be used."""
        import torch

        torch.set_num_threads(threads)
        try:
            self.workload = make()
            if check:
                self.workload.check()
        except (ValueError, TypeError, OSError, ImportError) as error:
            return str(error) or repr(error)
        for _ in range(halvings):
            self.workload.halve()
        return None

    def ask(self, name: str) -> Any:
        """What a method of the workload without arguments says."""
        return getattr(self.workload, name)()

    def compute(self, payload: Any) -> tuple[str | None, Any, tuple[str, ...]]:
        """What went wrong or None, the result, and the warnings on the way."""
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("default")
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=FutureWarning)
            try:
                result, error = self.workload.compute(payload), None
            except Exception as raised:  # noqa: BLE001 - handed to the driver, which tells it
                result, error = None, describe(raised)
        return error, result, tuple(str(note.message) for note in noted)


def describe(error: Exception) -> str:
    """The text of an error that was made for people; of any other, its type and the line that raised it, too."""
    if isinstance(error, ValueError | OSError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}, at {Path(last.filename).name}, line {last.lineno}"


@dataclass
class Member:
    """A worker as the driver knows it."""

    number: int
    node: Node
    actor: Any
    halvings: int
    call: Any  # what it is asked now: to open, or a job
    ready: bool = False
    busy: bool = False
    failures: int = 0  # in a row


@dataclass
class RayCrew:
    """As many workers as the nodes have room for, on nodes that come and go.

    Nodes that are there at the start must all be fit, or `start` raises; later ones that are not are left out.
    """

    ray: ModuleType
    options: ClusterOptions
    make: Callable[[], Workload]
    warn: Callable[[str], None] = lambda text: None
    members: dict[int, Member] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # reasons by node
    opened: int = 0
    looked: float = 0.0
    names: dict[int, str] = field(default_factory=dict)  # nodes of all workers there ever were
    stillborn: Counter[str] = field(default_factory=Counter)  # workers by node that died before they were ready

    def start(self) -> None:
        """Check all nodes, then start and check a worker on each before any work begins."""
        nodes = alive(self.ray, self.options)
        if not nodes:
            wanted = "GPUs" if self.options.kind != "cpu" else f"{self.options.threads} CPUs"
            raise ValueError(f"no node of the cluster has {wanted} for a worker; start nodes, or change --threads")
        reasons = unfit(self.ray, nodes)
        if reasons:
            raise ValueError(refusal({str(node): reasons[node.id] for node in nodes if node.id in reasons}))
        self.parcel = self.ray.put(self.make)
        self.nodes = {node.id: node for node in nodes}
        for node in nodes[: self.options.workers]:
            self.hire(node, check=True)
        self.open_first()
        self.fill()
        self.looked = time.monotonic()

    def open_first(self) -> None:
        """Wait for the first worker of each node, and refuse all if one is not fit."""
        first = list(self.members.values())
        for member in first:
            try:
                reason = self.ray.get(member.call)
            except self.ray.exceptions.RayError as error:
                self.dismiss(member)
                self.warn(f"node {member.node}: its worker died when it started ({first_line(error)})")
                continue
            if reason is not None:
                self.left_out[member.node.id] = reason
            member.ready, member.call = True, None
        if self.left_out:
            reasons = {str(self.nodes[node]): reason for node, reason in self.left_out.items()}
            self.close()
            raise ValueError(refusal(reasons))

    def ask(self, name: str) -> Any:
        """What the first worker that can be asked says."""
        for member in list(self.members.values()):
            with suppress(self.ray.exceptions.RayActorError):
                return self.ray.get(member.actor.ask.remote(name))
        raise ValueError("no worker of the cluster could be started")

    def fill(self) -> None:
        """Start workers on every node until it has as many as it has room for."""
        for node in self.nodes.values():
            if node.id in self.left_out:
                continue
            own = [member for member in self.members.values() if member.node.id == node.id]
            checked = any(member.ready for member in own)
            for _ in range(node.room - len(own) if checked or not own else 0):
                if self.options.workers is not None and len(self.members) >= self.options.workers:
                    return
                self.hire(node, check=not checked)
                if not checked:  # the others come when the first is found fit
                    break

    def hire(self, node: Node, check: bool, halvings: int = 0) -> None:
        gpu = self.options.kind != "cpu"
        actor = (
            self.ray.remote(Worker)
            .options(
                num_cpus=0 if gpu else self.options.threads,
                num_gpus=1 if gpu else 0,
                scheduling_strategy=on_node(self.ray, node),
            )
            .remote()
        )
        call = actor.open.remote(self.parcel, self.options.threads, check, halvings)
        self.members[self.opened] = Member(self.opened, node, actor, halvings, call)
        self.names[self.opened] = str(node)
        self.opened += 1

    def dismiss(self, member: Member) -> None:
        self.members.pop(member.number, None)
        self.ray.kill(member.actor, no_restart=True)

    def close(self) -> None:
        for member in list(self.members.values()):
            self.dismiss(member)

    def idle(self) -> Iterator[tuple[int, str]]:
        yield from ((m.number, str(m.node)) for m in self.members.values() if m.ready and not m.busy)

    def node_of(self, worker: int) -> str:
        return self.names[worker]

    def size(self) -> tuple[int, int]:
        ready = [member for member in self.members.values() if member.ready]
        return len(ready), len({member.node.id for member in ready})

    def give(self, worker: int, payload: Any) -> None:
        member = self.members[worker]
        member.busy = True
        member.call = member.actor.compute.remote(payload)

    def wait(self, seconds: float) -> list[Event]:
        if time.monotonic() - self.looked > LOOK:
            self.look()
        calls = {member.call: member for member in self.members.values() if member.call is not None}
        if not calls:
            if self.nodes and self.nodes.keys() <= self.left_out.keys():
                raise ValueError(refusal({str(node): self.left_out[node.id] for node in self.nodes.values()}))
            time.sleep(seconds)
            return []
        ready, _ = self.ray.wait(list(calls), num_returns=1, timeout=seconds)
        if ready:  # and what else there is
            ready, _ = self.ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return [event for call in ready if (event := self.answer(calls[call])) is not None]

    def look(self) -> None:
        """Which nodes came and went; workers of those that went are found dead when they are asked."""
        now = {node.id: node for node in alive(self.ray, self.options)}
        new = [node for node in now.values() if node.id not in self.nodes]
        for node, reason in unfit(self.ray, new).items() if new else ():
            self.leave_out(now[node], reason)
        self.nodes = now
        self.fill()
        self.looked = time.monotonic()

    def leave_out(self, node: Node, reason: str) -> None:
        self.left_out[node.id] = reason
        self.warn(f"node {node} {reason}; it is left out")

    def answer(self, member: Member) -> Event | None:
        """What a call that has ended means."""
        call, member.call = member.call, None
        try:
            answer = self.ray.get(call)
        except self.ray.exceptions.RayError as error:
            return self.bury(member, error)
        if not member.ready:
            if answer is None:
                member.ready = True
            else:
                self.dismiss(member)
                self.leave_out(member.node, f"cannot be used: {answer}")
            return None
        member.busy = False
        text, result, notes = answer
        if text is None:
            member.failures = 0
            return Finished(member.number, result, notes)
        member.failures += 1
        if member.failures >= FAILURES:  # its device may be beyond repair
            self.replace(member, member.halvings)
        return Raised(member.number, text)

    def bury(self, member: Member, error: BaseException) -> Died:
        """A dead worker; another one takes its place, with half the memory if it died for lack of it."""
        hungry = isinstance(error, self.ray.exceptions.OutOfMemoryError) or any(word in str(error) for word in MEMORY)
        if not member.ready:
            self.stillborn[member.node.id] += 1
            if self.stillborn[member.node.id] == STARTS:
                self.leave_out(member.node, f"cannot start a worker ({first_line(error)})")
        self.replace(member, member.halvings + hungry)
        what = "ran out of memory" if hungry else "died"
        return Died(member.number, f"its worker on node {member.node} {what} ({first_line(error)})", member.busy)

    def replace(self, member: Member, halvings: int) -> None:
        self.dismiss(member)
        self.nodes = {node.id: node for node in alive(self.ray, self.options)}
        if member.node.id in self.nodes and member.node.id not in self.left_out:
            self.hire(member.node, check=not member.ready, halvings=halvings)


def refusal(reasons: dict[str, str]) -> str:
    lines = "".join(f"\n  node {node} {reason}" for node, reason in sorted(reasons.items()))
    return f"the cluster cannot be used; give every node the same packages, model and data:{lines}"

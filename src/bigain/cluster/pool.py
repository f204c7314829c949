"""Run jobs on workers until each has ended, and yield how."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bigain.cluster.crew import Crew, Died, Event, Finished
from bigain.cluster.schedule import Schedule


class Done(NamedTuple):
    """A job with its result; None if it was done before its turn came."""

    job: int
    result: Any


class GivenUp(NamedTuple):
    """A job that failed as often as it may."""

    job: int
    errors: list[str]


Outcome = Done | GivenUp


@dataclass
class Pool:
    """A schedule and a crew. Leaving the loop over `outcomes` early leaves the jobs that have begun undone."""

    schedule: Schedule
    crew: Crew
    payload: Callable[[int], Any]  # what a worker gets for a job
    clock: Callable[[], float] = time.monotonic
    step: float = 0.5  # seconds to wait for news at a time
    began: float | None = None
    finished: int = 0
    told: set[str] = field(default_factory=set)  # warnings

    def outcomes(self) -> Iterator[Outcome]:
        self.began = self.clock()
        while self.schedule.unfinished:
            for worker, node in list(self.crew.idle()):
                job = self.schedule.assign(worker, node, self.clock())
                if job is None:
                    break
                self.crew.give(worker, self.payload(job))
            for job in self.schedule.found_done():
                yield Done(job, None)
            if self.schedule.unfinished:
                for event in self.crew.wait(self.step):
                    outcome = self.take(event)
                    if outcome is not None:
                        yield outcome

    def take(self, event: Event) -> Outcome | None:
        if isinstance(event, Finished):
            self.tell(event.notes)
            job = self.schedule.finished(event.worker, self.clock())
            if job is None:
                return None
            self.finished += 1
            return Done(job, event.result)
        if isinstance(event, Died) and not event.busy:
            return None
        died = isinstance(event, Died)
        given_up = self.schedule.failed(event.worker, self.crew.node_of(event.worker), event.error, died)
        return None if given_up is None else GivenUp(*given_up)

    def tell(self, notes: tuple[str, ...]) -> None:
        """Warn here of what a worker warned of, once."""
        for note in notes:
            if note not in self.told:
                self.told.add(note)
                warnings.warn(note, RuntimeWarning, stacklevel=2)

    def status(self) -> str:
        """`3 workers on 2 nodes, 1.2 chunks/s`."""
        workers, nodes = self.crew.size()
        if not workers:
            return "waiting for workers"
        seconds = self.clock() - (self.began or 0.0)
        places = f" on {nodes} nodes" if nodes > 1 else ""
        return f"{workers} worker{'s' * (workers > 1)}{places}, {self.finished / max(seconds, 1e-9):.3g} chunks/s"

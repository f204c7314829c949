"""Which worker computes what, and what is done when one fails: pure bookkeeping, without a network or a clock."""

import statistics
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

ATTEMPTS = 4  # of a job that raises: one, and three more
DEATHS = 8  # of workers on one job; machines come and go, and mostly the job is not the reason
PATIENCE = 3.0  # how many times the median a job may take before an idle worker computes it, too
RETRY = 2.0  # seconds until a job that another process holds is asked for again
RECENT = 1000  # jobs whose times are remembered

Claim = Literal["mine", "done", "held"]  # what is known of a job when its turn comes


@dataclass
class Turn:
    """A job that has begun on some workers."""

    job: int
    since: float
    workers: set[int] = field(default_factory=set)


class Schedule:
    """Jobs that wait, jobs on workers, and failures. A job is a number; it ends once, as done or as given up.

    `claim` is asked when a job's turn comes: it may have been done meanwhile, or be held by another process.
    """

    def __init__(self, jobs: Iterable[int], claim: Callable[[int], Claim] = lambda job: "mine") -> None:
        self.waiting = deque(jobs)
        self.held: deque[tuple[float, int]] = deque()
        self.turns: dict[int, Turn] = {}  # by job number
        self.of_worker: dict[int, int] = {}  # the job of each busy worker
        self.errors: dict[int, list[str]] = {}
        self.deaths: Counter[int] = Counter()
        self.failed_on: dict[int, set[str]] = {}  # nodes by job
        self.claim = claim
        self.already: list[int] = []  # found done when their turn came
        self.times: deque[float] = deque(maxlen=RECENT)

    @property
    def unfinished(self) -> bool:
        return bool(self.waiting or self.held or self.turns or self.already)

    def assign(self, worker: int, node: str, now: float) -> int | None:
        """The next job of an idle worker, or None."""
        while self.held and self.held[0][0] <= now:
            self.waiting.append(self.held.popleft()[1])
        while self.waiting:
            job = self._next(node)
            if job in self.errors:  # ours since its first attempt
                return self._begin(job, worker, now)
            standing = self.claim(job)
            if standing == "mine":
                return self._begin(job, worker, now)
            if standing == "done":
                self.already.append(job)
            else:
                self.held.append((now + RETRY, job))
        return self._again(worker, now)

    def _next(self, node: str) -> int:
        """The first job that has not failed on this node, or the first."""
        if self.failed_on:
            for place, job in enumerate(self.waiting):
                if node not in self.failed_on.get(job, ()):
                    del self.waiting[place]
                    return job
        return self.waiting.popleft()

    def _begin(self, job: int, worker: int, now: float) -> int:
        self.turns[job] = Turn(job, now, {worker})
        self.of_worker[worker] = job
        return job

    def _again(self, worker: int, now: float) -> int | None:
        """A job that takes much longer than others do, for a second worker: the first may be slow or stuck."""
        if not self.times:
            return None
        alone = [turn for turn in self.turns.values() if len(turn.workers) == 1 and turn.job not in self.errors]
        slowest = min(alone, key=lambda turn: turn.since, default=None)
        if slowest is None or now - slowest.since <= PATIENCE * statistics.median(self.times):
            return None
        slowest.workers.add(worker)
        self.of_worker[worker] = slowest.job
        return slowest.job

    def finished(self, worker: int, now: float) -> int | None:
        """The job that a worker has finished; None if another one was faster."""
        turn = self.turns.pop(self.of_worker.pop(worker), None)
        if turn is None:
            return None
        self.times.append(now - turn.since)
        self.errors.pop(turn.job, None)
        self.failed_on.pop(turn.job, None)
        self.deaths.pop(turn.job, None)
        return turn.job

    def failed(self, worker: int, node: str, error: str, died: bool = False) -> tuple[int, list[str]] | None:
        """Note the failure of a busy worker; -> the job and its errors if it is given up."""
        turn = self.turns.get(self.of_worker.pop(worker))
        if turn is None:  # another one was faster
            return None
        turn.workers.discard(worker)
        number = turn.job
        self.errors.setdefault(number, []).append(error)
        self.deaths[number] += died
        self.failed_on.setdefault(number, set()).add(node)
        if turn.workers:  # the other one still computes it
            return None
        del self.turns[number]
        if len(self.errors[number]) - self.deaths[number] < ATTEMPTS and self.deaths[number] < DEATHS:
            self.waiting.append(number)
            return None
        self.failed_on.pop(number)
        self.deaths.pop(number)
        return number, self.errors.pop(number)

    def found_done(self) -> list[int]:
        """Jobs that were done when their turn came, since this was last asked."""
        found, self.already = self.already, []
        return found

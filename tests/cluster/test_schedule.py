"""Who computes what: every job ends once, whatever workers do."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigain.cluster.crew import Died, Event, Finished, Raised
from bigain.cluster.pool import Done, GivenUp, Pool
from bigain.cluster.schedule import ATTEMPTS, DEATHS, RETRY, Schedule


class Troupe:
    """Workers that finish, raise and die by lot, and come and go; `computed` counts what they did."""

    def __init__(self, seed: int, bad: set[int], deadly: set[int]) -> None:
        self.lot = random.Random(seed)
        self.busy: dict[int, int | None] = {number: None for number in range(3)}
        self.next = 3
        self.bad, self.deadly = bad, deadly
        self.now = 0.0
        self.computed: Counter[int] = Counter()

    def idle(self) -> Iterator[tuple[int, str]]:
        yield from ((worker, self.node_of(worker)) for worker, job in self.busy.items() if job is None)

    def node_of(self, worker: int) -> str:
        return f"node {worker % 2}"

    def give(self, worker: int, payload: Any) -> None:
        assert self.busy[worker] is None
        self.busy[worker] = payload

    def size(self) -> tuple[int, int]:
        return len(self.busy), 2

    def wait(self, seconds: float) -> list[Event]:
        self.now += self.lot.uniform(0, 2)
        if self.lot.random() < 0.1 and len(self.busy) < 6:
            self.hire()
        return [self.event(worker) for worker in list(self.busy) if self.lot.random() < 0.5]

    def hire(self) -> None:
        self.busy[self.next] = None
        self.next += 1

    def event(self, worker: int) -> Event:
        job = self.busy[worker]
        if job is None or job in self.deadly or self.lot.random() < 0.15:
            del self.busy[worker]
            self.hire()
            return Died(worker, "killed", job is not None)
        self.busy[worker] = None
        if job in self.bad:
            return Raised(worker, f"cannot compute {job}")
        self.computed[job] += 1
        return Finished(worker, 10 * job)


@given(seed=st.integers(0, 2**32), jobs=st.integers(0, 40), bad=st.sets(st.integers(0, 39)))
def test_every_job_ends_once(seed: int, jobs: int, bad: set[int]) -> None:
    crew = Troupe(seed, bad, set())
    pool = Pool(Schedule(range(jobs)), crew, lambda job: job, clock=lambda: crew.now)
    outcomes = list(pool.outcomes())
    assert sorted(outcome.job for outcome in outcomes) == list(range(jobs))
    for outcome in outcomes:
        if isinstance(outcome, Done):
            assert outcome.job not in bad
            assert outcome.result == 10 * outcome.job
        elif outcome.job in bad:
            assert Counter(outcome.errors)[f"cannot compute {outcome.job}"] <= ATTEMPTS
        else:
            assert Counter(outcome.errors) == {"killed": DEATHS}


def end(schedule: Schedule, worker: int = 0, node: str = "a", died: bool = False) -> list[Any]:
    """Fail the only job until it is given up."""
    found = []
    while not found or found[-1] is None:
        assert schedule.assign(worker, node, 0.0) == 0
        found.append(schedule.failed(worker, node, "no", died))
    return found


def test_a_job_that_raises_is_tried_four_times_and_one_whose_workers_die_eight() -> None:
    assert end(Schedule([0])) == [None, None, None, (0, ["no"] * 4)]
    assert end(Schedule([0]), died=True) == [None] * 7 + [(0, ["no"] * 8)]


def test_a_job_goes_to_another_node_than_it_failed_on() -> None:
    schedule = Schedule([0, 1, 2])
    assert schedule.assign(0, "a", 0.0) == 0
    schedule.failed(0, "a", "no")
    assert [schedule.assign(0, "a", 0.0), schedule.assign(1, "a", 0.0)] == [1, 2]
    assert schedule.assign(2, "b", 0.0) == 0
    schedule.failed(2, "b", "no")
    assert schedule.assign(2, "b", 0.0) == 0  # nobody else has work, so it is better than none


def test_a_slow_worker_is_helped_once_and_only_the_first_result_counts() -> None:
    schedule = Schedule([0, 1])
    assert [schedule.assign(worker, "a", 0.0) for worker in (0, 1)] == [0, 1]
    assert schedule.finished(1, 1.0) == 1
    assert schedule.assign(1, "a", 2.9) is None
    assert schedule.assign(1, "a", 3.1) == 0
    assert schedule.assign(2, "a", 99.0) is None  # two are enough
    assert schedule.finished(1, 4.0) == 0
    assert not schedule.unfinished
    assert schedule.finished(0, 5.0) is None


def test_the_failure_of_a_helper_is_not_the_end() -> None:
    schedule = Schedule([0, 1])
    for worker in (0, 1):
        schedule.assign(worker, "a", 0.0)
    schedule.finished(1, 1.0)
    assert schedule.assign(1, "b", 9.0) == 0
    assert schedule.failed(1, "b", "no") is None
    assert schedule.finished(0, 10.0) == 0
    assert not schedule.unfinished


def test_jobs_of_other_processes_are_asked_for_again() -> None:
    standing = {0: "held", 1: "done", 2: "mine"}
    schedule = Schedule(range(3), lambda job: standing[job])  # type: ignore[arg-type, return-value]
    assert schedule.assign(0, "a", 0.0) == 2
    assert schedule.found_done() == [1]
    assert schedule.assign(1, "a", RETRY / 2) is None
    standing[0] = "done"
    assert schedule.assign(1, "a", RETRY) is None
    assert schedule.found_done() == [0]
    assert schedule.finished(0, 3.0) == 2
    assert not schedule.unfinished


def test_warnings_of_workers_are_told_once() -> None:
    crew = Troupe(0, set(), set())
    pool = Pool(Schedule([]), crew, lambda job: job)
    with pytest.warns(RuntimeWarning, match="cannot win"):
        pool.tell(("it cannot win",))
    pool.tell(("it cannot win",))


def test_the_status_is_one_line() -> None:
    crew = Troupe(0, set(), set())
    pool = Pool(Schedule([0, 1]), crew, lambda job: job, clock=lambda: crew.now)
    assert all(isinstance(outcome, Done | GivenUp) for outcome in pool.outcomes())
    pool.began, crew.now = 0.0, 4.0
    assert pool.status() == f"{len(crew.busy)} workers on 2 nodes, 0.5 chunks/s"
    crew.busy.clear()
    assert pool.status() == "waiting for workers"

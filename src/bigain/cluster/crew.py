"""What the pool needs of its workers, whoever they are."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class Finished(NamedTuple):
    """A worker has computed its job; `notes` are the warnings that it gave."""

    worker: int
    result: Any
    notes: tuple[str, ...] = ()


class Raised(NamedTuple):
    """A worker's job raised; the worker is well."""

    worker: int
    error: str


class Died(NamedTuple):
    """A worker is gone, whatever it was doing."""

    worker: int
    error: str
    busy: bool


Event = Finished | Raised | Died


class Crew(Protocol):
    """Workers that come and go."""

    def idle(self) -> Iterator[tuple[int, str]]:
        """Workers without a job, with the names of their nodes."""

    def node_of(self, worker: int) -> str:
        """The name of a worker's node."""

    def give(self, worker: int, payload: Any) -> None:
        """Start a job on an idle worker."""

    def wait(self, seconds: float) -> list[Event]:
        """What has happened since the last call; waits so long at most if nothing has."""

    def size(self) -> tuple[int, int]:
        """How many workers are ready, on how many nodes."""

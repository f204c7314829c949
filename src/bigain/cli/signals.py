"""Handle SIGTERM like Ctrl-C, so that a command can say what is done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM; code that handles Ctrl-C handles this too."""


def raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


@contextmanager
def tidy_end() -> Iterator[None]:
    """Inside the `with` block SIGTERM raises Terminated; signals can only be set in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

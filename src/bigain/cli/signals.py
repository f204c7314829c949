"""SIGTERM ends a command as Ctrl-C does, so that it can say what is done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM came; whoever handles Ctrl-C handles this, too."""


def raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


@contextmanager
def tidy_end() -> Iterator[None]:
    """SIGTERM raises Terminated for a while; only the main thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""Progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bars(console: Console) -> Progress:
    """Description, bar, count, elapsed and remaining time."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *columns, console=console)


@contextmanager
def library_bar(description: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error, if that is a terminal; yields what advances it by one."""
    console = Console(stderr=True)
    bars = progress_bars(console)
    bars.disable = not console.is_terminal
    with bars:
        task = bars.add_task(description, total=total)
        yield lambda: bars.advance(task)

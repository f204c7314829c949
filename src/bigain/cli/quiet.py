"""Keep other libraries' messages out of the output; our own warnings are one line each."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

PACKAGE = Path(__file__).resolve().parent.parent
# read when the libraries are imported, which commands do late
SETTINGS = {
    "DIFFUSERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


@contextmanager
def quiet(show: Callable[[str], None], files: Sequence[Path], loud: bool) -> Iterator[None]:
    """Silence progress bars, logs and warnings; `show` gets warnings of this package and of users' own files.

    Nothing is silenced if the user asked to see more.
    """
    if loud:
        yield
        return
    own = [PACKAGE, *(Path(os.path.realpath(path)) for path in files)]  # not `resolve`, which raises for a loop

    def show_ours(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if any(Path(os.path.realpath(filename)).is_relative_to(place) for place in own):
            show(str(message))

    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with settings(), warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = show_ours
            yield
    finally:
        logging.disable(before)


@contextmanager
def settings() -> Iterator[None]:
    """Set SETTINGS in the environment inside the `with` block; the user's own values stay."""
    new = [name for name in SETTINGS if name not in os.environ]
    os.environ.update({name: SETTINGS[name] for name in new})
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)

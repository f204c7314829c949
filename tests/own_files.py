"""Files of one's own that tests load, and how they are forgotten again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bigain.classify.board import POLICIES
from bigain.data import DATASETS
from bigain.operators import OPERATORS
from bigain.tokens.scores import SCORERS


@contextmanager
def forgetting(folder: Path) -> Iterator[Path]:
    """What files of a folder register, and they themselves, are forgotten in the end, as in a new process."""
    registries = (OPERATORS, SCORERS, POLICIES, DATASETS)
    before = [dict(registry) for registry in registries]
    try:
        yield folder
    finally:
        for registry, items in zip(registries, before, strict=True):
            registry._items = items
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(folder)):
                del sys.modules[name]

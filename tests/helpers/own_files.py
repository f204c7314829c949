"""Files of one's own that tests load, and how they are forgotten again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bigain.classify.state import POLICIES
from bigain.data import DATASETS
from bigain.operators import OPERATORS
from bigain.tokens.scores import SCORERS

# one of each kind that can be registered, but operators
OTHERS = """
from dataclasses import dataclass

from bigain.classify.state import POLICIES
from bigain.classify.policies import Exhaustive
from bigain.data import DATASETS
from bigain.data.fashion_mnist import load_fashion_sample
from bigain.tokens.scores import SCORERS


@SCORERS.register("flat")
def flat(x, grid):
    '''The same for all.'''
    return x.float().mean(2) * 0


@POLICIES.register("once")
@dataclass(frozen=True)
class Once(Exhaustive):
    '''Every class on one trial.'''

    trials: int = 1


@DATASETS.register("my-data")
def my_data():
    '''Borrowed images.'''
    return load_fashion_sample()
"""


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

"""Tests that take `backbone` or `operator` run for all there are, those that take both for the covering pairs.

A file may say with `NAMES` which backbones it needs.
"""

from functools import cache
from typing import Any

import pytest

from bigain.operators import OPERATORS
from helpers.models import BACKBONES, EXAMPLES, Backbone
from helpers.pairs import PAIRS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = getattr(metafunc.module, "NAMES", list(BACKBONES))
    wanted = {"backbone", "operator"} & set(metafunc.fixturenames)
    if wanted == {"backbone", "operator"}:
        pairs = [(name, operator) for name in names for operator in PAIRS[name]]
        cases = [(BACKBONES[name], EXAMPLES[operator]) for name, operator in pairs]
        metafunc.parametrize(("backbone", "operator"), cases, ids=["-".join(pair) for pair in pairs])
    elif wanted == {"backbone"}:
        metafunc.parametrize("backbone", [BACKBONES[name] for name in names], ids=names)
    elif wanted == {"operator"}:
        metafunc.parametrize("operator", [EXAMPLES.get(name, name) for name in OPERATORS], ids=list(OPERATORS))


@cache
def built(name: str) -> Any:
    return BACKBONES[name].build()


@pytest.fixture
def model(backbone: Backbone) -> Any:
    """One model for all tests of a backbone; each test leaves it as it was."""
    return built(backbone.name)

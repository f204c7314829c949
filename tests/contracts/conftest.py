"""Every test that takes `backbone` or `operator` runs for all there are, or for the `NAMES` of its file."""

from typing import Any

import pytest

from bigain.operators import OPERATORS
from helpers.models import BACKBONES, EXAMPLES, Backbone


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backbone" in metafunc.fixturenames:
        names = getattr(metafunc.module, "NAMES", list(BACKBONES))
        metafunc.parametrize("backbone", [BACKBONES[name] for name in names], ids=names, scope="module")
    if "operator" in metafunc.fixturenames:
        metafunc.parametrize("operator", [EXAMPLES.get(name, name) for name in OPERATORS], ids=list(OPERATORS))


@pytest.fixture(scope="module")
def model(backbone: Backbone) -> Any:
    """One model for all tests of a backbone; each test leaves it as it was."""
    return backbone.build()

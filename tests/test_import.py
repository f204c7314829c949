"""`import bigain` stays light."""

import subprocess
import sys

import pytest

import bigain


def test_import_brings_no_heavy_package() -> None:
    code = (
        "import sys, bigain; print([m for m in ('torch', 'diffusers', 'scipy', 'typer', 'peft') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in bigain.__all__:
        assert getattr(bigain, name).__module__.startswith("bigain")
    assert set(bigain.__all__) <= set(dir(bigain))
    with pytest.raises(AttributeError, match="no attribute 'comprss'"):
        _ = bigain.comprss

"""`import bigain` stays light."""

import subprocess
import sys


def test_import_brings_no_heavy_package() -> None:
    code = "import sys, bigain; print([m for m in ('diffusers', 'transformers', 'typer', 'peft') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

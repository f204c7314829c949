"""The `bigain` command. A command is a file here that joins `main.app`, and a line below.

Heavy imports are inside the commands, so that `--help` and completion are fast.
"""

# isort: off
from bigain.cli.main import app
from bigain.cli import (  # noqa: F401 - they join the app; the order is that of --help
    demo,
    studio,
    classify,
    fit,
    tune,
    generate,
    show,
    flops,
    run,
    merge,
    report,
    analyze,
    bench,
    train,
    names,
)

__all__ = ["app"]

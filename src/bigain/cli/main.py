"""The app that the commands join, with its global options."""

import ctypes
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import MEANINGS, Commands

# panels of `bigain --help`
MODELS, EXPERIMENTS, MORE = "Use a model", "Run experiments", "More"

EPILOG = "Exit codes:\n" + "\n".join(f"{code.value:>5}  {text}" for code, text in MEANINGS.items())

app = typer.Typer(
    cls=Commands,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bigain {version('bigain')}")
        raise typer.Exit


@app.callback()
def main(
    load: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            help="Python file that registers your own operators, scorers, policies or datasets; repeatable.",
        ),
    ] = None,
    traceback: Annotated[
        bool, typer.Option("--traceback", metavar="", help="Show the full traceback of an error.")
    ] = False,
    show: Annotated[
        bool,
        typer.Option("--version", metavar="", help="Show the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """Faster diffusion models that still generate and still classify.

    Run `bigain COMMAND --help` for the options of a command.
    """
    from bigain.plugins import load_file

    keep_memory()
    for path in load or ():
        load_file(path)


def keep_memory() -> None:
    """Let glibc keep what a pass frees for the next one; giving it back to the system each time takes longer."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in every C library
        if mallopt is not None:
            mallopt(-1, 2**25)  # M_TRIM_THRESHOLD
            mallopt(-3, 2**25)  # M_MMAP_THRESHOLD


def examples(*lines: str) -> str:
    """The examples at the end of a command's --help."""
    return "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])

"""Output, errors and exit codes of all commands."""

import json
import math
import sqlite3
import sys
import traceback
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from bigain.cli.quiet import quiet
from bigain.cli.signals import Terminated, tidy_end
from bigain.escape import terminal

out, err = Console(), Console(stderr=True)


class Code(IntEnum):
    """The exit codes."""

    DONE = 0
    LEFT_OUT = 1
    WRONG = 2
    MISSING = 3
    BROKEN = 4
    NOT_FINITE = 5
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS = {
    Code.DONE: "done",
    Code.LEFT_OUT: "done, but something was left out, such as unreadable images",
    Code.WRONG: "wrong usage or bad input",
    Code.MISSING: "a file, weights or an optional package is missing or unusable",
    Code.BROKEN: "internal error, or an error in your own operator; see the traceback",
    Code.NOT_FINITE: "the model returned NaN or Inf; nothing is written for that image",
    Code.INTERRUPTED: "interrupted by Ctrl-C",
    Code.TERMINATED: "terminated by SIGTERM",
}


class Commands(TyperGroup):
    """The group of all commands, which turns exceptions into error texts and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        loud = ctx.params["traceback"]
        try:
            with tidy_end(), quiet(show_warning, ctx.params.get("load") or (), loud):
                return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException, BrokenPipeError):
            raise  # typer's own business
        except KeyboardInterrupt as error:
            interrupted(str(error))
        except SystemExit as error:  # typer raises its own; this one is of an operator or a library
            if isinstance(error.__context__, BrokenPipeError):  # rich's, if the reader is gone, as in `| head`
                raise
            warn("", "".join(traceback.format_exception(error)).rstrip())
            raise typer.Exit(Code.BROKEN) from error
        except Exception as error:
            code = code_of(error)
            if code is Code.BROKEN or loud:
                warn("", "".join(traceback.format_exception(error)).rstrip())
            else:
                warn("[red]error:[/] ", text_of(error))
            raise typer.Exit(code) from error


def code_of(error: Exception) -> Code:
    """The exit code of an error; ValueError and TypeError mean bad input."""
    if isinstance(error, OSError | ImportError):
        return Code.MISSING
    if isinstance(error, ValueError | TypeError | sqlite3.Error):
        return Code.WRONG
    if isinstance(error, FloatingPointError):
        return Code.NOT_FINITE
    return Code.BROKEN


def text_of(error: Exception) -> str:
    """The error text, without the system's error number."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or repr(error)


def interrupted(advice: str = "") -> NoReturn:
    """Print one line after Ctrl-C or SIGTERM, with advice, and exit."""
    ended = isinstance(sys.exception(), Terminated)
    warn("[yellow]terminated[/]" if ended else "[yellow]interrupted[/]", f": {advice}" if advice else "")
    raise typer.Exit(Code.TERMINATED if ended else Code.INTERRUPTED)


def left_out(what: str, name: str, reason: str) -> None:
    """One line for something that was left out."""
    warn(f"[yellow]{what}:[/] ", terminal(f"{name}: {reason}"))


def report_left_out(what: str, reasons: dict[str, str]) -> None:
    """Print what was left out and exit with the code for it; do nothing if nothing was."""
    for name, reason in reasons.items():
        left_out(what, name, reason)
    if reasons:
        raise typer.Exit(Code.LEFT_OUT)


def show_warning(text: str) -> None:
    """One of our own warnings, on one line."""
    warn("[yellow]warning:[/] ", " ".join(text.split()))


def warn(mark: str, text: str) -> None:
    """A line on standard error: a mark in colour, then plain text."""
    err.print(mark + escape(terminal(text, lines=True)), highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """One plain line of the result."""
    out.print(terminal(text, lines=True), markup=False, highlight=False, soft_wrap=True)


def cell(text: str) -> str:
    """Escape text for a table: no markup, no terminal control."""
    return escape(terminal(text))


def print_json(value: Any) -> None:
    """Print JSON, one line on standard output."""
    typer.echo(json.dumps(plain(value), allow_nan=False, default=repr))


def plain(value: Any) -> Any:
    """Values for JSON: paths as strings, named tuples as objects, null for NaN and infinity."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value

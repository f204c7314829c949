"""`bigain run`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import err, interrupted, print_json, report_left_out, say
from bigain.cli.main import EXPERIMENTS, app, examples
from bigain.cli.options import Device, RunFolder, Threads, json_of


@app.command(
    rich_help_panel=EXPERIMENTS,
    epilog=examples("bigain run benchmarks/experiments/bundled/main-unet.toml --out runs/main"),
)
def run(
    experiment: Annotated[
        Path, typer.Argument(metavar="FILE", help="Experiment as a TOML file, such as those in benchmarks/experiments.")
    ],
    folder: RunFolder = None,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: Annotated[bool, json_of("{folder: a path, left_out: reasons by image}")] = False,
) -> None:
    """Run an experiment, or continue it.

    Run it again after an interruption to continue. Several processes may run it at once and share the work.
    """
    from bigain.experiments.run import run_file

    place = folder or Path("runs") / experiment.stem
    try:
        left_out = run_file(experiment, place, device, err)
    except KeyboardInterrupt as error:
        interrupted(str(error) or f"results so far are in {place}; run the same command to continue")
    if as_json:
        print_json({"folder": place, "left_out": left_out})
    else:
        say(f"results in {place}; see them with `bigain report {place}`")
    report_left_out("left out", left_out)

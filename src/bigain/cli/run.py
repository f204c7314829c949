"""`bigain run`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import err, interrupted, print_json, report_left_out, say
from bigain.cli.main import EXPERIMENTS, app, examples
from bigain.cli.options import MANY, Device, RunFolder, Threads, json_of


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
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Compute share I of N into a record of its own, OUT/shard-I-of-N; auto takes it from a Slurm array or "
            "from RANK and WORLD_SIZE. `bigain merge` joins them.",
            rich_help_panel=MANY,
        ),
    ] = None,
    as_json: Annotated[bool, json_of("{folder: a path, left_out: reasons by image}")] = False,
) -> None:
    """Run an experiment, or continue it.

    Run it again after an interruption to continue. Several processes may run it at once and share the work.
    """
    from bigain.experiments.shards import parse_shard, shard_folder

    share = None if shard is None else parse_shard(shard, os.environ)
    place = folder or Path("runs") / experiment.stem
    if share is not None:
        place = shard_folder(place, share)
    from bigain.experiments.run import run_file

    try:
        left_out = run_file(experiment, place, device, err, share)
    except KeyboardInterrupt as error:
        interrupted(str(error) or f"results so far are in {place}; run the same command to continue")
    if as_json:
        print_json({"folder": place, "left_out": left_out})
    else:
        way = f"see them with `bigain report {place}`"
        if share is not None:
            way = f"join all shares with `bigain merge {place.parent}/shard-* --out {place.parent}`"
        say(f"results in {place}; {way}")
    report_left_out("left out", left_out)

"""`bigain run`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import Code, err, interrupted, print_json, report_left_out, say, warn
from bigain.cli.main import EXPERIMENTS, app, examples
from bigain.cli.options import MANY, Cluster, Device, RunFolder, Send, Threads, Workers, cluster_options, json_of


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
    cluster: Cluster = None,
    workers: Workers = None,
    send: Send = False,
    as_json: Annotated[
        bool, json_of("{folder: a path, left_out: reasons by image, failed: errors by chunk, with --cluster}")
    ] = False,
) -> None:
    """Run an experiment, or continue it.

    Run it again after an interruption to continue. Several processes may run it at once and share the work.
    """
    from bigain.experiments.shards import parse_shard, shard_folder

    share = None if shard is None else parse_shard(shard, os.environ)
    place = folder or Path("runs") / experiment.stem
    if share is not None:
        place = shard_folder(place, share)
    options = cluster_options(cluster, device, threads, workers, send)
    if options is not None and share is not None:
        raise ValueError("use either --cluster or --shard: a cluster shares the work by itself")
    from bigain.experiments.run import LeftOut, run_file, run_file_on_cluster

    try:
        if options is None:
            left_out = LeftOut(run_file(experiment, place, device, err, share), {})
        else:
            left_out = run_file_on_cluster(experiment, place, options, err)
    except KeyboardInterrupt as error:
        interrupted(str(error) or f"results so far are in {place}; run the same command to continue")
    if as_json:
        failed = {} if options is None else {"failed": left_out.chunks}
        print_json({"folder": place, "left_out": left_out.images, **failed})
    else:
        way = f"see them with `bigain report {place}`"
        if share is not None:
            way = f"join all shares with `bigain merge {place.parent}/shard-* --out {place.parent}`"
        say(f"results in {place}; {way}")
    for name, reason in left_out.chunks.items():
        warn("[red]skipped:[/] ", f"{name}: {reason}")
    report_left_out("left out", left_out.images)
    if left_out.chunks:
        raise typer.Exit(Code.LEFT_OUT)

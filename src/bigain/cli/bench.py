"""`bigain bench`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bigain.cli.console import err, out, print_json, say, warn
from bigain.cli.main import EXPERIMENTS, app, examples
from bigain.cli.options import (
    COMPRESSION,
    MACHINE,
    OUTPUT,
    Architecture,
    Device,
    Latent,
    Reuse,
    Threads,
    Where,
    json_of,
    names_of,
    parse_size,
    words,
)


@app.command(
    rich_help_panel=EXPERIMENTS,
    epilog=examples(
        "bigain bench --model sd2 --latent 96x96",
        'bigain bench --model fashion-unet --operator "gated_merge(0.5)" --compile',
    ),
)
def bench(
    model: Architecture = "sd2",
    latent: Latent = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Samples per step.")] = 1,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="How often each operator runs.")] = 7,
    operator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help='Operator, or "tomesd(ratio=0.7)"; repeatable. Default: all.',
            autocompletion=names_of("operators"),
            rich_help_panel=COMPRESSION,
        ),
    ] = None,
    where: Where = None,
    reuse: Reuse = None,
    dtype: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="float32, float16 or bfloat16.",
            autocompletion=words("float32", "float16", "bfloat16"),
            rich_help_panel=MACHINE,
        ),
    ] = "float32",
    compiled: Annotated[
        bool,
        typer.Option("--compile", metavar="", help="Also measure with torch.compile.", rich_help_panel=MACHINE),
    ] = False,
    device: Device = "cpu",
    threads: Threads = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Write bench.json and the chart bench.png here.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: Annotated[
        bool,
        json_of(
            "{model, latent, batch, dtype, rounds, machine, versions, break_even, not_compiled, refused, "
            "rows: a list of {name, mode, seconds, "
            "quartiles, to_none, interval, to_tomesd, flops, bound, to_eager, peak_bytes, parts, speedup, "
            "speedup_interval, overhead}}",
            OUTPUT,
        ),
    ] = False,
) -> None:
    """Measure the speed of each operator and of tomesd, next to the limit set by FLOPs.

    All run in turn, round by round, so other load affects them equally: trust the ratios, not the times.
    """
    import json

    from bigain.commands.request import CompressionOptions
    from bigain.models.named import ARCHITECTURES
    from bigain.zoo.catalog import locate

    size = parse_size(latent)
    if model not in ARCHITECTURES:
        locate(model)
    for text in operator or ():
        if not text.startswith("tomesd"):
            CompressionOptions(text, where, reuse).check()

    from bigain.bench.runners import Bench
    from bigain.bench.speed import measure
    from bigain.bench.speed_report import advice, parts_table, speed_json, speed_table
    from bigain.plots import save_figure
    from bigain.plots.speed import speed_chart

    again: Any = reuse
    wanted = Bench(model, tuple(operator or ()), size, batch, dtype, device, rounds, compiled, where, again)
    with err.status("building the model") as status:
        result = measure(wanted, status.update)
    found = speed_json(result, wanted)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bench.json").write_text(json.dumps(found, indent=1) + "\n")
        save_figure(speed_chart(result.rows, wanted, result.machine), folder / "bench.png")
    if as_json:
        print_json(found)
        return
    out.print(speed_table(result.rows, wanted, result.machine, result.refused), markup=False)
    out.print(parts_table(result.rows), markup=False)
    for line in advice(result):
        warn("[yellow]note:[/] ", line)
    if folder:
        say(f"bench.json and bench.png in {folder}")

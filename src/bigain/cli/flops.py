"""`bigain flops`."""

from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from bigain.cli.console import cell, out, print_json
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import Architecture, Latent, Operator, Reuse, Where, json_of, parse_size
from bigain.registry import NONE

if TYPE_CHECKING:
    from bigain.bench.flops import Cost


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        "bigain flops --model sdxl --latent 96x96",
        'bigain flops --operator "gated_merge(ratio=0.7)" --reuse stage --json',
    ),
)
def flops(
    model: Architecture = "sd2",
    operator: Operator = None,
    where: Where = None,
    reuse: Reuse = None,
    latent: Latent = None,
    as_json: Annotated[bool, json_of("a list of {model, operator, reuse, where, latent, gflops, saved}")] = False,
) -> None:
    """Count the FLOPs of one forward pass; no weights are needed.

    Without --operator, the table shows the uncompressed model and the main operators.
    """
    from bigain.commands.request import CompressionOptions
    from bigain.models.named import check_named
    from bigain.zoo.catalog import bundled, locate

    if reuse and not operator:
        raise ValueError("--reuse needs --operator; without one the table shows both variants")
    size = parse_size(latent)
    if model in bundled():
        locate(model)
    else:
        check_named(model)
    asked = CompressionOptions(operator, where, reuse)
    if operator:
        asked.check()

    from dataclasses import replace

    from bigain.bench.flops import MAIN, model_costs
    from bigain.compression.setting import as_where

    chosen = as_where(where)
    main = [compression and replace(compression, where=chosen) for compression in MAIN]
    costs = model_costs(model, [asked.compression()] if operator else main, size)
    height, width = costs.latent
    rows = [row_of(model, cost, f"{height}x{width}") for cost in costs.rows]
    if as_json:
        print_json(rows)
        return
    table = Table(title=cell(f"{model}, {height}x{width} latents, one sample, one forward pass"))
    table.add_column("operator")
    table.add_column("reuse")
    table.add_column("GFLOPs", justify="right")
    table.add_column("saved", justify="right")
    places = 2 if rows[0]["gflops"] > 1 else 4
    for row in rows:
        cost = f"{row['gflops']:.{places}f}"
        table.add_row(cell(row["operator"] or NONE), row["reuse"] or "", cost, f"{row['saved']:.1%}")
    out.print(table)


def row_of(model: str, cost: "Cost", latent: str) -> dict[str, Any]:
    values = (
        {"operator": None, "where": None, "reuse": None} if cost.compression is None else cost.compression.as_dict()
    )
    asked = {"model": model, **{key: values[key] for key in ("operator", "reuse", "where")}}
    return {**asked, "latent": latent, "gflops": cost.flops / 1e9, "saved": cost.saved}

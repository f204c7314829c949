"""`bigain flops`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from bigain.cli.console import cell, out, print_json, warn
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import Architecture, Correct, Latent, Operator, Reuse, When, Where, json_of, parse_size
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
    correct: Correct = None,
    when: When = None,
    classes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Classes of a trial, which share one plan; the costs are those of one of them."
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="SPEC", help="With --classes, count a whole decision by stages or exhaustive, too.")
    ] = "stages",
    latent: Latent = None,
    as_json: Annotated[
        bool,
        json_of(
            "a list of {model, operator, reuse, where, groups, correct, latent, gflops, saved, decision_gflops, "
            "break_even, refused}"
        ),
    ] = False,
) -> None:
    """Count the FLOPs of one forward pass; no weights are needed.

    Without --operator, the table shows the uncompressed model and the main operators. With --classes, the classes of a
    trial share one plan, and --correct adds one dense and one compressed row for all of them.
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
    asked = CompressionOptions(operator, where, reuse, correct=correct, when=when)
    if operator:
        asked.check()
    if correct and not (operator and classes):
        raise ValueError("--correct needs --operator and --classes; it costs one row more for all classes of a trial")

    from dataclasses import replace

    from bigain.bench.flops import MAIN, Trial, by_reason, model_costs
    from bigain.compression.setting import as_where

    chosen = as_where(where)
    groups: Any = "input" if classes else None
    main = [compression and replace(compression, where=chosen, groups=groups) for compression in MAIN]
    trial = Trial(classes or 1, policy if classes else None)
    costs = model_costs(model, [asked.compression(groups)] if operator else main, size, trial)
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
    if classes:
        table.add_column(f"a decision, {cell(policy)}", justify="right")
    places = 2 if rows[0]["gflops"] > 1 else 4
    for row in rows:
        name = f"{row['operator'] or NONE}{', corrected' * bool(row['correct'])}"
        if row["refused"]:
            numbers = ["–", "refused", *["–" for _ in range(bool(classes))]]
        else:
            whole = [f"{row['decision_gflops']:.{places}f}"] if classes else []
            numbers = [f"{row['gflops']:.{places}f}", f"{row['saved']:.1%}", *whole]
        table.add_row(cell(name), row["reuse"] or "", *numbers)
    out.print(table)
    for line in by_reason((row["operator"], row["refused"]) for row in rows if row["refused"]):
        warn("[yellow]note:[/] ", line)
    for row in rows:
        if row["break_even"]:
            pays = f"the correction of {row['operator']} pays from {row['break_even']} classes on"
            warn(
                "[yellow]note:[/] ", f"{pays}; with {classes} it costs more than it saves" if row["saved"] < 0 else pays
            )


def row_of(model: str, cost: "Cost", latent: str) -> dict[str, Any]:
    asked = dict.fromkeys(("operator", "reuse", "where", "groups", "correct"))
    if isinstance(cost.compression, str):  # a preset
        asked["operator"] = cost.compression
    elif cost.compression is not None:
        values = cost.compression.as_dict()
        asked |= {key: values.get(key) for key in asked}
        asked["operator"] = values.get("operator") or values["name"] or "setting"
    total, decision = (None if flops is None else flops / 1e9 for flops in (cost.flops, cost.decision))
    costs = {"gflops": total, "saved": cost.saved, "decision_gflops": decision}
    said = {"break_even": cost.break_even, "refused": cost.refused}
    return {"model": model, **asked, "latent": latent, **costs, **said}

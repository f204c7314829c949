"""`bigain flops`."""

from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Table

from bigain.cli.console import cell, out, print_json
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import Operator, Reuse, Where, json_of, names_of
from bigain.registry import NONE

MAIN_OPERATORS: tuple[tuple[str | None, str | None], ...] = (
    (None, None),
    ("tome(ratio=0.7)", None),
    ("gated_merge(ratio=0.7)", None),
    ("gated_merge(ratio=0.7)", "stage"),
    ("block_merge(ratio=0.7)", None),
    ("sito(ratio=0.7)", None),
    ("todo(factor=2)", None),
    ("kv_downsample(factor=2)", None),
    ("kv_downsample(factor=4)", None),
)  # with `reuse`


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        "bigain flops --model sdxl --latent 96x96",
        'bigain flops --operator "gated_merge(ratio=0.7)" --reuse stage --json',
    ),
)
def flops(
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="An architecture (`bigain list architectures`), a bundled model or a folder with a diffusers model.",
            autocompletion=names_of("architectures"),
        ),
    ] = "sd2",
    operator: Operator = None,
    where: Where = None,
    reuse: Reuse = None,
    latent: Annotated[
        str | None, typer.Option(metavar="HxW", help="Size of the latents, such as 64x64; the model's own by default.")
    ] = None,
    as_json: Annotated[bool, json_of("a list of {model, operator, reuse, where, latent, gflops, saved}")] = False,
) -> None:
    """Count the FLOPs of one forward pass; no weights are needed.

    Without --operator, the table has the uncompressed model and the main operators.
    """
    from bigain.backbones.named import check_named
    from bigain.bench.request import attached_operator, check_operator
    from bigain.zoo.shelf import bundled, locate

    if reuse and not operator:
        raise ValueError("--reuse goes with --operator; the table without one has both where it matters")
    size = parse_size(latent) if latent else None
    if model in bundled():
        locate(model)
    else:
        check_named(model)
    check_operator(operator, where, reuse)

    from bigain.backbones.architectures import build_meta, meta_copy
    from bigain.backbones.denoiser import TEXT_TOKENS
    from bigain.backbones.site import native_size
    from bigain.bench.cost import count_flops
    from bigain.loading import load_denoiser

    if model in bundled():
        denoiser = load_denoiser(model)
        network, text_tokens = meta_copy(denoiser.network), denoiser.text_tokens
    else:
        network, text_tokens = build_meta(model), TEXT_TOKENS
    height, width = size or native_size(network)
    count = partial(count_flops, network, latent=size, text_tokens=text_tokens)
    dense = count() / 1e9
    rows: list[dict[str, Any]] = []
    for text, again in ((operator, reuse),) if operator else MAIN_OPERATORS:
        text = attached_operator(text)
        gflops = count(text, where=where, reuse=again) / 1e9 if text else dense
        asked = {"model": model, "operator": text, "reuse": again, "where": where if text else None}
        rows.append({**asked, "latent": f"{height}x{width}", "gflops": gflops, "saved": 1 - gflops / dense})
    if as_json:
        print_json(rows)
        return
    table = Table(title=cell(f"{model}, {height}x{width} latents, one sample, one forward pass"))
    table.add_column("operator")
    table.add_column("reuse")
    table.add_column("GFLOPs", justify="right")
    table.add_column("saved", justify="right")
    places = 2 if dense > 1 else 4
    for row in rows:
        cost = f"{row['gflops']:.{places}f}"
        table.add_row(cell(row["operator"] or NONE), row["reuse"] or "", cost, f"{row['saved']:.1%}")
    out.print(table)


def parse_size(text: str) -> tuple[int, int]:
    """`48x80` -> (48, 80)."""
    height, _, width = text.partition("x")
    if not (height.isdigit() and width.isdigit()) or 0 in (int(height), int(width)):
        raise ValueError(f"a size is height x width, like 64x64; got {text!r}")
    return int(height), int(width)

"""`bigain show`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import print_json, say
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import OUTPUT, Model, Seed, json_of, names_of


@app.command(
    rich_help_panel=MODELS,
    epilog=examples('bigain show shoe.png --operator "gated_merge(ratio=0.5)" --out shoe.svg'),
)
def show(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="Image file.")],
    model: Model = "fashion-unet",
    operator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Operator; repeatable. Default: gated_merge and tome, both with ratio 0.5.",
            autocompletion=names_of("operators"),
        ),
    ] = None,
    site: Annotated[
        str | None, typer.Option(metavar="NAME", help="Attention to draw. Default: the first compressed one.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="Class or prompt to condition on. Default: none.")
    ] = None,
    t: Annotated[int, typer.Option("--t", metavar="N", help="Timestep, from 0 (image) to 999 (noise).")] = 500,
    draws: Annotated[int, typer.Option(metavar="N", help="Noise draws to average the score map over.")] = 4,
    seed: Seed = 0,
    picture: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="PNG or SVG file to write.", rich_help_panel=OUTPUT),
    ] = Path("show.png"),
    as_json: Annotated[bool, json_of("{picture: a path, model, operators: a list of specs}", OUTPUT)] = False,
) -> None:
    """Draw the Laplacian score of an image, and which tokens each operator merges."""
    from bigain.commands.request import CompressionOptions
    from bigain.zoo.catalog import locate

    wanted = operator or ["gated_merge(ratio=0.5)", "tome(ratio=0.5)"]
    locate(model)
    for text in wanted:
        CompressionOptions(text).check()

    from bigain.commands.show import show
    from bigain.loading import load_denoiser
    from bigain.plots import save_figure

    figure = show(image, load_denoiser(model), wanted, label=label, t=t, draws=draws, site=site, seed=seed)
    save_figure(figure, picture)
    if as_json:
        print_json({"picture": picture, "model": model, "operators": wanted})
    else:
        say(f"figure in {picture}")

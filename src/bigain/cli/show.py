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
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file.")],
    model: Model = "fashion-unet",
    operator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="An operator; may be given several times. Gated merging and ToMe, both at 0.5, by default.",
            autocompletion=names_of("operators"),
        ),
    ] = None,
    site: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which attention; the first compressed one by default.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="The class or prompt that the model is told; none by default.")
    ] = None,
    t: Annotated[int, typer.Option("--t", metavar="N", help="Timestep: 0 is an image, 999 is noise.")] = 500,
    draws: Annotated[int, typer.Option(metavar="N", help="Noise draws that the score map is averaged over.")] = 4,
    seed: Seed = 0,
    picture: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="Where to draw: a PNG or SVG file.", rich_help_panel=OUTPUT),
    ] = Path("show.png"),
    as_json: Annotated[bool, json_of("{picture: a path, model, operators: a list of specs}", OUTPUT)] = False,
) -> None:
    """Draw what happens to the tokens of an image: the Laplacian map, and which tokens each operator merges."""
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
        say(f"drawn in {picture}")

"""`bigain generate`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import err, print_json, report_left_out, say
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import (
    OUTPUT,
    SAMPLING,
    Cache,
    Classes,
    Cluster,
    Device,
    Groups,
    ImageSize,
    Model,
    Operator,
    Reuse,
    Seed,
    Send,
    Threads,
    Where,
    Workers,
    cluster_options,
    json_of,
)


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        'bigain generate --operator "gated_merge(ratio=0.5)" --count 20',
        'bigain generate --model my/sd2 --prompt "a red fox" --count 4 --out foxes',
    ),
)
def generate(
    model: Model = "fashion-unet",
    image_size: ImageSize = None,
    prompt: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Prompt or class; repeatable.")] = None,
    classes: Classes = None,
    prompts_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Text file with one prompt per line.")
    ] = None,
    count: Annotated[int, typer.Option(metavar="N", help="Number of images; prompts are used in turn.")] = 10,
    operator: Operator = None,
    where: Where = None,
    reuse: Reuse = None,
    groups: Groups = None,
    cache: Cache = None,
    num_inference_steps: Annotated[
        int, typer.Option(metavar="N", help="Denoising steps.", rich_help_panel=SAMPLING)
    ] = 50,
    guidance_scale: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Classifier-free guidance; 1 means none. Default: the model's usual scale.",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="ddim, euler, dpm++ or any diffusers scheduler class; flow-euler, flow-heun or dpm++ for flow models. "
            "Default: the usual one of the model.",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    cluster: Cluster = None,
    workers: Workers = None,
    send: Send = False,
    folder: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder for the images and a contact sheet.", rich_help_panel=OUTPUT
        ),
    ] = Path("images"),
    as_json: Annotated[bool, json_of("{images: a list of paths, sheet: a path}", OUTPUT)] = False,
) -> None:
    """Generate images from classes or prompts.

    Each image has its own seed, so batch size and order do not change the images.
    """
    from bigain.commands.request import CompressionOptions, GenerateRequest

    compression = CompressionOptions(operator, where, reuse, groups)
    named = (tuple(prompt or ()), classes, prompts_file)
    request = GenerateRequest(model, *named, count, compression, device, image_size, cache)
    request.check()
    options = cluster_options(cluster, device, threads, workers, send)
    from bigain.generation import Sampling

    sampling = Sampling(num_inference_steps, guidance_scale, scheduler, seed)
    failed: dict[str, str] = {}
    if options is None:
        from bigain.commands.generate import generate_all

        sheet = generate_all(request, sampling, folder, err)
    else:
        from bigain.commands.on_cluster import generate_on_cluster

        sheet, failed = generate_on_cluster(request, sampling, folder, options, err)
    if failed:
        report_left_out("skipped", failed)
    if as_json:
        print_json({"images": [folder / f"{number:05d}.png" for number in range(count)], "sheet": sheet})
    else:
        say(f"{count} image{'s' * (count > 1)} in {folder}, contact sheet in {sheet}")

"""`bigain fit`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import Code, err, left_out, print_json, say
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import DECISION, Classes, Device, Model, Prompts, Seed, Threads, json_of


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        "bigain fit labelled/ --out profile.json",
        "bigain fit photos/ --unlabelled --model my/sd2 --classes a,b --out p.json",
    ),
)
def fit(
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGES", help="Image files, folders and globs, better 100 images or more.")
    ],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="The profile, a JSON file.")],
    model: Model = "fashion-unet",
    classes: Classes = None,
    prompts: Prompts = "{}",
    unlabelled: Annotated[
        bool,
        typer.Option(
            "--unlabelled", metavar="", help="Let the model label the images. Default: folders name the classes."
        ),
    ] = False,
    trials: Annotated[int, typer.Option(metavar="N", min=1, help="Timesteps to keep.", rich_help_panel=DECISION)] = 16,
    candidates: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Evenly spaced timesteps to choose from.", rich_help_panel=DECISION),
    ] = 20,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: Annotated[bool, json_of("{profile: its content, left_out: reasons by path}")] = False,
) -> None:
    """Fit the timesteps that tell your classes apart, and how much each counts.

    Then `bigain classify --policy fast --timesteps FILE` decides with fewer evaluations.
    Use other images than those you report on. If they do not show that weights help, weights stay equal.
    """
    from bigain.commands.request import ClassifyRequest
    from bigain.data.images import find_images
    from bigain.progress import progress_bars

    if not file.parent.is_dir():
        raise FileNotFoundError(f"no folder {file.parent} for the profile {file.name}; create it first")
    if trials > candidates:
        raise ValueError(f"--trials must be at most --candidates, {candidates}, got {trials}")
    found = find_images(images)
    request = ClassifyRequest(model, classes, prompts, seed=seed, device=device)
    request.check()
    skipped = dict(found.left_out)

    def skip(name: str, reason: str) -> None:
        skipped[name] = reason
        left_out("not used", name, reason)

    for name, reason in found.left_out.items():
        left_out("not used", name, reason)
    with progress_bars(err) as bars:
        task = bars.add_task("trying every class", total=len(found.images))
        from bigain.commands.fit import Fitting, fit_files

        wanted = Fitting(trials, candidates, not unlabelled)
        profile = fit_files(found.images, request, wanted, skip, lambda count: bars.advance(task, count))
    profile.save(file)
    if as_json:
        print_json({"profile": asdict(profile), "left_out": skipped})
    else:
        say(f"{file}: {profile}")
    if skipped:
        raise typer.Exit(Code.LEFT_OUT)

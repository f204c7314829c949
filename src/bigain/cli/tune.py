"""`bigain tune`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import err, interrupted, print_json, say, warn
from bigain.cli.main import MODELS, app, examples
from bigain.cli.options import OUTPUT, Classes, Device, ImageSize, Model, Prompts, Seed, Threads, json_of, words

SEARCH = "Search"  # panel of --help


@app.command(
    rich_help_panel=MODELS,
    epilog=examples(
        "bigain tune --save 20% --out setting.json",
        "bigain tune --model my/sd2 --keep 95% --classes cat,dog --minutes 60",
    ),
)
def tune(
    model: Model = "fashion-unet",
    save: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Share of all FLOPs to save, such as 30% or 0.3.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Save as much as keeps this share of decisions, and this SSIM of images."),
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="PATH",
            help="Images to classify; repeatable. Default: images that the model generates.",
        ),
    ] = None,
    image_size: ImageSize = None,
    classes: Classes = None,
    prompts: Prompts = "{}",
    capabilities: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="both|classify|generate",
            help="What to keep.",
            autocompletion=words("both", "classify", "generate"),
        ),
    ] = "both",
    minutes: Annotated[
        float,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="N",
            help="Time for the search, not counting loading; the last step is finished.",
        ),
    ] = 20.0,
    held_out: Annotated[
        int,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="N",
            min=4,
            help="Images that are classified to verify; a third as many are generated.",
        ),
    ] = 64,
    num_inference_steps: Annotated[
        int, typer.Option(rich_help_panel=SEARCH, metavar="N", min=1, help="Denoising steps of its images.")
    ] = 20,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    file: Annotated[
        Path,
        typer.Option(
            "--out",
            rich_help_panel=OUTPUT,
            metavar="FILE",
            help="The setting, a JSON file; beside it come a page and a checkpoint.",
        ),
    ] = Path("setting.json"),
    as_json: Annotated[bool, json_of("{setting: its content, met, page: a path}", OUTPUT)] = False,
) -> None:
    """Find operators for each site and timestep of your model, for a saving or for what is to be kept.

    Each operator is measured at each site, the best choice is made from that, and verified on other images and seeds.
    Interrupted, it goes on with the same command. Then use the file wherever an operator is: --operator setting.json.
    """
    from bigain.commands.request import ClassifyRequest
    from bigain.data.images import find_images
    from bigain.registry import miss

    if capabilities not in ("both", "classify", "generate"):
        raise ValueError(miss("capability", capabilities, ["both", "classify", "generate"]))
    if (save is None) == (keep is None):
        raise ValueError("give either --save or --keep, such as --save 30%")
    shares = parse_share("--save", save), parse_share("--keep", keep)
    if file.suffix != ".json" or not file.parent.is_dir():
        raise ValueError(f"--out must be a JSON file in a folder that exists, got {file}")
    if minutes <= 0:
        raise ValueError(f"--minutes must be above 0, got {minutes:g}")
    if images and capabilities == "generate":
        raise ValueError("--images are classified; leave them out with --for generate")
    found = find_images(images) if images else None
    ClassifyRequest(model, classes, prompts, seed=seed, device=device).check_words()

    with err.status("loading the model"):
        from bigain.commands.tune import TuneFiles, tune_files
        from bigain.tuning.goal import Goal
        from bigain.tuning.tune import Effort, missed

    goal = Goal(*shares, capabilities != "generate", capabilities != "classify")
    generated = max(2, held_out // 3)
    effort = Effort(
        images=max(2, min(8, held_out // 4)), held_out=held_out, held_out_generated=generated,
        generated=min(4, generated), num_inference_steps=num_inference_steps,
    )  # fmt: skip
    request = TuneFiles(
        model, goal, file, found.images if found else None, classes, prompts, minutes, seed, device, image_size, effort
    )
    try:
        tuned = tune_files(request, err)
    except KeyboardInterrupt:
        interrupted(f"what was measured is in {request.checkpoint}; run the same command to continue")
    if as_json:
        print_json({"setting": tuned.setting.as_dict(), "met": tuned.met, "page": request.page})
        return
    say(str(tuned.setting))
    if not tuned.met:
        warn("[yellow]note:[/] ", missed(tuned))
    say(f"{file}, and {request.page} to look at")


def parse_share(option: str, text: str | None) -> float | None:
    """`30%` or `0.3` -> 0.3."""
    if text is None:
        return None
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    share = number / 100 if text.endswith("%") else number
    if not 0 < share < 1:
        hint = f"; did you mean {text}%?" if 1 <= share < 100 else ""
        raise ValueError(f"{option} must be a share, such as 30% or 0.3, got {text!r}{hint}")
    return share

"""Options shared by several commands, and shell completion of names."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bigain.cli.catalog import CATALOG
from bigain.registry import miss

if TYPE_CHECKING:
    from bigain.cluster.connect import ClusterOptions

# panels of --help
COMPRESSION, DECISION, SAMPLING, OUTPUT, MACHINE = "Compression", "Decision", "Sampling", "Output", "Machine"
MANY = "Many machines"
DEVICES = ("cpu", "cuda", "mps", "xpu")


def names_of(what: str) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """Complete all names of a kind, including those of files given to --load."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        from bigain.plugins import load_file

        with suppress(ValueError, OSError):  # said when the command runs
            for path in ctx.find_root().params.get("load") or ():
                load_file(path)
        found = CATALOG[what]().items()
        return [(name, shorten(line, 70, placeholder=" …")) for name, line in found if name.startswith(incomplete)]

    return complete


def words(*choices: str) -> Callable[[str], list[str]]:
    """Complete fixed words."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def check_device(ctx: typer.Context, name: str) -> str:
    """Check that torch has this device."""
    if ctx.resilient_parsing or ctx.params.get("cluster"):  # the shell completes a line; other machines compute
        return name
    kind = name.partition(":")[0]
    if kind not in DEVICES:
        raise typer.BadParameter(miss("device", kind, DEVICES))
    if name == "cpu":  # always there; other checks need not wait for torch
        return name
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise typer.BadParameter(f"{name!r} cannot be used here: {str(error).splitlines()[0]}") from None
    return name


def use_threads(ctx: typer.Context, count: int | None) -> int | None:
    """Set the number of torch's threads."""
    if count is not None and not ctx.resilient_parsing:
        import torch

        torch.set_num_threads(count)
    return count


Model = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Bundled model, folder or Hub model ID (owner/name).",
        autocompletion=names_of("models"),
    ),
]
Architecture = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Architecture (`bigain list architectures`), bundled model or folder of a diffusers model.",
        autocompletion=names_of("architectures"),
    ),
]
Latent = Annotated[
    str | None, typer.Option(metavar="HxW", help="Size of the latents, such as 96x96. Default: the model's own.")
]
ImageSize = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Side of the images of a pipeline, in pixels. Default: the pipeline's own."),
]
Operator = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help='Operator such as "gated_merge(ratio=0.7)"; see `bigain list operators`. Default: none.',
        autocompletion=names_of("operators"),
        rich_help_panel=COMPRESSION,
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="SITES",
        help="Sites to compress, such as \"part='down'\". Default: the finest self-attentions.",
        rich_help_panel=COMPRESSION,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="input|none",
        help="input: rows with the same noisy input share one plan, such as all classes of a trial. none: each row "
        "has its own. Default: input for classify, none for generate.",
        autocompletion=words("input", "none"),
        rich_help_panel=COMPRESSION,
    ),
]
Correct = Annotated[
    bool | None,
    typer.Option(
        "--correct/--no-correct",
        metavar="",
        help="Remove the error that all classes of a trial share; the default of classify with --groups input.",
        rich_help_panel=COMPRESSION,
    ),
]
Reuse = Annotated[
    str | None,
    typer.Option(
        metavar="stage",
        help="stage: plan once per stage of the network. Default: once per block.",
        autocompletion=words("stage"),
        rich_help_panel=COMPRESSION,
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help='Reuse outputs of earlier steps, such as "every(k=3)"; see `bigain list caches`. Default: none.',
        autocompletion=names_of("caches"),
        rich_help_panel=COMPRESSION,
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Comma-separated names, or a file with one name per line. Default: the model's own."
    ),
]
Prompts = Annotated[
    str, typer.Option(metavar="TEXT", help='Template for text-conditioned models, such as "a photo of a {}".')
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the noise.")]
Device = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Device: cpu, cuda, cuda:1, …",
        callback=check_device,
        autocompletion=words(*DEVICES),
        rich_help_panel=MACHINE,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="CPU threads. Default: torch's choice.",
        callback=use_threads,
        rich_help_panel=MACHINE,
    ),
]
RunFolder = Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Output folder. Default: runs/NAME.")]


Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Compute on a Ray cluster: its address, auto for the one of this machine or RAY_ADDRESS, or local to "
        'start one here. Needs `pip install "bigain[cluster]"`.',
        is_eager=True,  # before --device, which is then that of other machines
        rich_help_panel=MANY,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Workers at most. Default: one a GPU, or one for each --threads CPUs (1).",
        rich_help_panel=MANY,
    ),
]
Send = Annotated[
    bool,
    typer.Option(
        "--send",
        metavar="",
        help="Send model and images to the nodes. Default: nodes read them by name, path or Hub model ID.",
        rich_help_panel=MANY,
    ),
]


def cluster_options(
    address: str | None, device: str, threads: int | None, workers: int | None, send: bool
) -> "ClusterOptions | None":
    """The cluster that was asked for, or None."""
    if address is None:
        if workers is not None or send:
            raise ValueError(f"{'--send' if send else '--workers'} needs --cluster")
        return None
    from bigain.cluster.connect import ClusterOptions, import_ray

    import_ray()  # said before anything is loaded
    return ClusterOptions(address, device, threads or 1, workers, send)


def parse_size(text: str | None) -> tuple[int, int] | None:
    """`48x80` -> (48, 80)."""
    if text is None:
        return None
    height, _, width = text.partition("x")
    if not (height.isdigit() and width.isdigit()) or 0 in (int(height), int(width)):
        raise ValueError(f"--latent must be HEIGHTxWIDTH, like 64x64, got {text!r}")
    return int(height), int(width)


def json_of(shape: str, panel: str | None = None) -> Any:
    """The option --json of a command, with the shape of its output."""
    return typer.Option("--json", metavar="", help=f"Print JSON: {shape}.", rich_help_panel=panel)

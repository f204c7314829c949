"""`bigain analyze`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.analyzing import print_analysis
from bigain.cli.console import err, interrupted, print_json, warn
from bigain.cli.main import EXPERIMENTS, app, examples
from bigain.cli.options import COMPRESSION, OUTPUT, Correct, Device, Groups, Reuse, Threads, Where, json_of, names_of


@app.command(
    rich_help_panel=EXPERIMENTS,
    epilog=examples(
        "bigain analyze fashion-unet --n 20",
        "bigain analyze my-experiment.toml --out runs/theory",
        "bigain analyze runs/main-dit",
    ),
)
def analyze(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="Model: bundled name, folder or Hub model ID. Or an experiment file (.toml), for its model, images "
            "and rows. Or a run of `bigain run`, for the errors that it recorded.",
        ),
    ],
    operator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Operator of a model to analyse; repeatable. Default: the main ones at ratio 0.5 and factor 2.",
            autocompletion=names_of("operators"),
            rich_help_panel=COMPRESSION,
        ),
    ] = None,
    where: Where = None,
    groups: Groups = None,
    correct: Correct = None,
    reuse: Reuse = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Dataset (`bigain list data`). Default: one of a bundled model's own, else fashion-sample.",
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", metavar="N", min=4, help="Images. Default: 50 for a model, all of an experiment file."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help="Evenly spaced timesteps, each for all classes. Default: 10, or those of exhaustive(N) in a file.",
        ),
    ] = None,
    bands: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Frequency bands of the token grid. Default: 5.")
    ] = None,
    rivals: Annotated[
        int, typer.Option(metavar="N", min=1, help="Strongest rivals that each image's true class is compared with.")
    ] = 3,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of images and noise. Default: 0.")] = None,
    device: Device = "cpu",
    threads: Threads = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Keep measurements and the figure here; started again, the command continues.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the analysis as JSON.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Annotated[
        bool, json_of("{model, data, n, rows: of each setting, foretold, signs, contrasts, …}", OUTPUT)
    ] = False,
) -> None:
    """Measure the paper's theory of compressed classifiers, and whether it foretells accuracy.

    The strongest rivals of a true class are behind it by mu, with a spread sigma.
    In theory, compression does no harm where r = sigma / mu falls.
    Tables show r, Cantelli's bound, frequency bands and responses beside what is measured.
    """
    from bigain.commands.analyze_request import AnalyzeRequest

    operators = tuple(operator) if operator else None
    compression = (operators, where, groups, correct, reuse)
    request = AnalyzeRequest(subject, *compression, data, n, trials, bands, seed, rivals)
    request.check()
    if record is not None and not record.parent.is_dir():
        raise FileNotFoundError(f"no folder {record.parent} for the analysis {record.name}; create it first")

    from bigain.commands.analyze import analyze_model, analyze_record, write_analysis
    from bigain.progress import progress_bars

    if request.kind == "record":
        found = analyze_record(Path(subject), rivals)
    else:
        measurement = request.measurement()
        with progress_bars(err) as bars:
            task = bars.add_task("loading", total=None)

            def show(label: str, total: int) -> None:
                bars.update(task, total=total, advance=1, description=label)

            try:
                found = analyze_model(measurement, device, folder, show, n)
            except KeyboardInterrupt:
                kept = f"measurements so far are in {folder}; run the same command to continue"
                interrupted(kept if folder else "use --out FOLDER to keep measurements")
    if as_json:
        print_json(found)
    else:
        print_analysis(found)
    if record is not None:
        write_analysis(found, record)
        warn("[green]written:[/] ", f"analysis {record}")
    if folder is not None:
        from bigain.plots import save_figure, theory

        path = save_figure(theory(found), folder / "theory.png")
        warn("[green]written:[/] ", f"figure {path}")

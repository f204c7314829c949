"""`bigain run`: execute an experiment file, with the time left for all of it."""

from contextlib import closing
from pathlib import Path

from rich.console import Console

from bigain.bench.experiment import read_experiment
from bigain.bench.measures import Judge
from bigain.bench.runner import Piece, Run, run_pieces
from bigain.loading import best_dtype, load_denoiser
from bigain.progress import progress_bars


def run_file(path: Path, folder: Path, device: str, console: Console) -> dict[str, str]:
    """Run what is not done yet; names of images that could not be read, with the reasons."""
    experiment = read_experiment(path)
    run = Run.start(experiment, folder, load_denoiser(experiment.model, device=device, dtype=best_dtype(device)))
    with closing(run.store):
        execute(run, console)
        return run.store.skipped()


def execute(run: Run, console: Console) -> None:
    """Do what is not done yet, and measure what was done."""
    experiment = run.experiment
    with progress_bars(console) as bars:
        pieces = run.pieces()
        totals = {task: sum(p.last - p.first for p in pieces if p.task == task) for task in experiment.tasks}
        tasks = {task: bars.add_task(task, total=total) for task, total in totals.items() if total}

        def show(piece: Piece, count: int) -> None:
            bars.update(tasks[piece.task], advance=count, description=f"{piece.task}: {piece.setting.label}")

        run_pieces(run, show)
    with console.status("measuring"):
        judge = Judge(run)
        for setting in experiment.settings:
            judge.judge(setting)

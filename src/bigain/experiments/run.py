"""`bigain run`: run an experiment file with a progress bar."""

from contextlib import closing
from pathlib import Path

from rich.console import Console

from bigain.experiments.evaluator import Evaluator
from bigain.experiments.experiment import read_experiment
from bigain.experiments.runner import Chunk, Run, run_chunks
from bigain.loading import best_dtype, load_denoiser
from bigain.progress import progress_bars


def run_file(path: Path, folder: Path, device: str, console: Console) -> dict[str, str]:
    """Run what is missing; -> reasons by name of unreadable images."""
    experiment = read_experiment(path)
    denoiser = load_denoiser(
        experiment.model, device=device, dtype=best_dtype(device), image_size=experiment.image_size
    )
    run = Run.start(experiment, folder, denoiser)
    with closing(run.store):
        execute(run, console)
        return run.store.skipped()


def execute(run: Run, console: Console) -> None:
    """Run what is missing, then measure the results."""
    experiment = run.experiment
    with progress_bars(console) as bars:
        chunks = run.chunks()
        totals = {task: sum(p.last - p.first for p in chunks if p.task == task) for task in experiment.tasks}
        tasks = {task: bars.add_task(task, total=total) for task, total in totals.items() if total}

        def show(chunk: Chunk, count: int) -> None:
            bars.update(tasks[chunk.task], advance=count, description=f"{chunk.task}: {chunk.setting.label}")

        run_chunks(run, show)
    with console.status("measuring"):
        evaluator = Evaluator(run)
        for setting in experiment.settings:
            evaluator.evaluate(setting)

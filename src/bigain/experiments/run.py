"""`bigain run`: run an experiment file with a progress bar."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console

from bigain.denoisers.base import Denoiser
from bigain.experiments.chunks import Chunk, Shard
from bigain.experiments.evaluator import Evaluator
from bigain.experiments.experiment import Experiment, read_experiment
from bigain.experiments.runner import Progress, Run, run_chunks
from bigain.loading import best_dtype, load_denoiser
from bigain.progress import progress_bars


def run_file(path: Path, folder: Path, device: str, console: Console, shard: Shard | None = None) -> dict[str, str]:
    """Run what is missing, all or a share of it; -> reasons by name of unreadable images."""
    experiment = read_experiment(path)
    run = Run.start(experiment, folder, load_model(experiment, device), shard)
    with closing(run.results):
        execute(run, console)
        return run.store.skipped()


def load_model(experiment: Experiment, device: str) -> Denoiser:
    """The experiment's model, in the precision that suits the device."""
    return load_denoiser(experiment.model, device=device, dtype=best_dtype(device), image_size=experiment.image_size)


def execute(run: Run, console: Console) -> None:
    """Run what is missing, then measure the results, unless they are a share only."""
    with shown(run, console) as show:
        run_chunks(run, show)
    if run.shard is None:
        measure(run, console)


@contextmanager
def shown(run: Run, console: Console) -> Iterator[Progress]:
    """Progress bars, one a task; -> what moves them."""
    with progress_bars(console) as bars:
        chunks = run.chunks()
        totals = {task: sum(p.last - p.first for p in chunks if p.task == task) for task in run.experiment.tasks}
        tasks = {task: bars.add_task(task, total=total) for task, total in totals.items() if total}

        def show(chunk: Chunk, count: int) -> None:
            bars.update(tasks[chunk.task], advance=count, description=f"{chunk.task}: {chunk.setting.label}")

        yield show


def measure(run: Run, console: Console) -> None:
    with console.status("measuring"):
        evaluator = Evaluator(run)
        for setting in run.experiment.settings:
            evaluator.evaluate(setting)

"""`bigain run`: run an experiment file with a progress bar."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from rich.console import Console

from bigain.cluster.connect import ClusterOptions
from bigain.denoisers.base import Denoiser
from bigain.experiments.chunks import Chunk, Shard
from bigain.experiments.evaluator import Evaluator
from bigain.experiments.experiment import Experiment, read_contents, read_experiment
from bigain.experiments.runner import Run, run_chunks
from bigain.loading import best_dtype, load_denoiser
from bigain.progress import progress_bars


class Show(Protocol):
    """Moves the progress bars."""

    def __call__(self, chunk: Chunk, count: int, workers: str = "") -> None: ...


class LeftOut(NamedTuple):
    """Reasons by name of unreadable images, and errors by name of chunks that always failed."""

    images: dict[str, str]
    chunks: dict[str, str]


def run_file(path: Path, folder: Path, device: str, console: Console, shard: Shard | None = None) -> dict[str, str]:
    """Run what is missing, all or a share of it; -> reasons by name of unreadable images."""
    experiment = read_experiment(path)
    run = Run.start(experiment, folder, load_model(experiment, device, device), shard)
    with closing(run.results):
        execute(run, console)
        return run.store.skipped()


def run_file_on_cluster(path: Path, folder: Path, options: ClusterOptions, console: Console) -> LeftOut:
    """Run what is missing on a cluster, and measure here when nothing is missing any more."""
    from bigain.experiments.distributed import run_on_cluster  # needs Ray

    experiment = read_experiment(path)
    run = Run.start(experiment, folder, load_model(experiment, "cpu", options.device))
    with closing(run.results):
        with shown(run, console) as show:
            contents = read_contents(path)
            failed = run_on_cluster(run, contents, options, show, lambda text: console.print(text, markup=False))
        if not failed:
            measure(run, console)
        return LeftOut(run.store.skipped(), failed)


def load_model(experiment: Experiment, device: str, working: str) -> Denoiser:
    """The experiment's model, in the precision of the device that does the work."""
    return load_denoiser(experiment.model, device=device, dtype=best_dtype(working), image_size=experiment.image_size)


def execute(run: Run, console: Console) -> None:
    """Run what is missing, then measure the results, unless they are a share only."""
    with shown(run, console) as show:
        run_chunks(run, show)
    if run.shard is None:
        measure(run, console)


@contextmanager
def shown(run: Run, console: Console) -> Iterator[Show]:
    """Progress bars, one a task; -> what moves them by a chunk, with words about the workers if there are several."""
    with progress_bars(console) as bars:
        chunks = run.chunks()
        totals = {task: sum(p.last - p.first for p in chunks if p.task == task) for task in run.experiment.tasks}
        tasks = {task: bars.add_task(task, total=total) for task, total in totals.items() if total}

        def show(chunk: Chunk, count: int, workers: str = "") -> None:
            words = f"{chunk.task}: {workers or chunk.setting.label}"
            bars.update(tasks[chunk.task], advance=count, description=words)

        yield show


def measure(run: Run, console: Console) -> None:
    with console.status("measuring"):
        evaluator = Evaluator(run)
        for setting in run.experiment.settings:
            evaluator.evaluate(setting)

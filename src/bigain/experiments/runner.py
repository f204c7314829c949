"""Run an experiment: chunk by chunk, each written down when it is done, by one process or several.

While a process works on a chunk it holds a lock that the system drops when the process dies.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bigain.data import Dataset
from bigain.denoisers.base import Denoiser
from bigain.experiments.chunks import Chunk, Shard, all_chunks, total
from bigain.experiments.compute import Computer, validate
from bigain.experiments.decisive import decisive
from bigain.experiments.experiment import Experiment
from bigain.experiments.folder import FILE, RunFolder
from bigain.experiments.machine import Watch, environment, now
from bigain.experiments.store import Hashes, Store
from bigain.experiments.subjects import REAL, chosen_data, whole_data

Progress = Callable[["Chunk", int], None]  # a chunk was finished, here or earlier, with so many images


@dataclass
class Run:
    """An experiment that has begun: what computes its chunks, and where their results go."""

    computer: Computer
    results: RunFolder
    hashes: Hashes = field(default_factory=dict)
    shard: Shard | None = None  # the share of this run, or all

    @classmethod
    def start(cls, experiment: Experiment, folder: Path, denoiser: Denoiser, shard: Shard | None = None) -> "Run":
        whole = whole_data(experiment)
        data = chosen_data(experiment, whole)
        validate(experiment, denoiser, data, min(REAL, len(whole)))
        hashes = decisive(experiment, denoiser, whole, data)
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / FILE)
        try:
            store.check_dtype(environment(denoiser)["dtype"])
            ids = store.begin(experiment, whole.identity(), hashes, plan(experiment, data.names))
        except BaseException:
            store.close()
            raise
        return cls(Computer(experiment, denoiser, data), RunFolder(folder, store, ids, data.names), hashes, shard)

    @property
    def experiment(self) -> Experiment:
        return self.computer.experiment

    @property
    def denoiser(self) -> Denoiser:
        return self.computer.denoiser

    @property
    def data(self) -> Dataset:
        return self.computer.data

    @property
    def folder(self) -> Path:
        return self.results.folder

    @property
    def store(self) -> Store:
        return self.results.store

    @property
    def ids(self) -> dict[str, int]:
        return self.results.ids

    def chunks(self) -> list[Chunk]:
        return all_chunks(self.experiment, self.shard)

    def work(self, chunk: Chunk) -> None:
        self.results.put(chunk, self.computer.compute(chunk))

    def facts(self) -> dict[str, Any]:
        """What the record says of this session."""
        return environment(self.denoiser) | ({"shard": str(self.shard)} if self.shard else {})


def plan(experiment: Experiment, names: Sequence[str]) -> dict[str, Any]:
    """What a complete record has: how many images by setting and task, and those to classify in their order."""
    settings = [(s.label, {task: total(experiment, task, s) for task in s.tasks}) for s in experiment.settings]
    classifies = any("classify" in tasks for _, tasks in settings)
    return {"settings": settings, "images": list(names) if classifies else []}


def run_chunks(run: Run, progress: Progress | None = None, patience: float = 2.0) -> None:
    """Run all chunks that are not done; wait for those that another process runs."""
    session, watch = run.store.log_session(now(), run.facts()), Watch()
    run.store.update_session(session, watch.summary())
    waiting: Sequence[Chunk] = run.chunks()
    try:
        while waiting:
            held = []
            for chunk in waiting:
                if not run.results.claim(chunk):
                    held.append(chunk)
                    continue
                if not run.results.done(chunk):
                    run.work(chunk)
                    watch.look()
                    run.store.update_session(session, watch.summary())
                run.results.release(chunk)
                if progress is not None:
                    progress(chunk, chunk.last - chunk.first)
            if len(held) == len(waiting):
                time.sleep(patience)
            waiting = held
    finally:
        run.results.claims.close()
    run.store.end_session(session, now())

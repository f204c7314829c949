"""Run an experiment on a Ray cluster: its chunks on workers, their results written by this process alone."""

from collections.abc import Callable
from contextlib import closing
from types import ModuleType
from typing import Any

from bigain.cluster.connect import ClusterOptions, connected
from bigain.cluster.pool import GivenUp, Pool
from bigain.cluster.schedule import Claim, Schedule
from bigain.cluster.workers import RayCrew
from bigain.experiments.chunks import Chunk
from bigain.experiments.machine import now
from bigain.experiments.remote import Part, Recipe
from bigain.experiments.runner import Run
from bigain.experiments.sent import send
from bigain.experiments.subjects import subjects
from bigain.plugins import loaded
from bigain.sending import send_model

Show = Callable[[Chunk, int, str], None]  # a chunk has ended, with so many images, and how the cluster does


def run_on_cluster(
    run: Run, contents: dict[str, Any], options: ClusterOptions, show: Show, warn: Callable[[str], None]
) -> dict[str, str]:
    """Run all chunks that are not done; -> errors by chunk of those that were given up."""
    with connected(options) as ray:
        crew = RayCrew(ray, options, recipe(ray, run, contents, options), warn)
        crew.start()
        with closing(crew):
            return compute(run, crew, options, show)


def recipe(ray: ModuleType, run: Run, contents: dict[str, Any], options: ClusterOptions) -> Recipe:
    """What a node makes its worker of."""
    made = Recipe(contents, tuple(loaded().items()), run.hashes, options.kind)
    if not options.send:
        return made
    data = send(run.data, ray.put, ray.get) if run.hashes["image"] else None
    return Recipe(made.contents, made.code, made.hashes, made.device, send_model(ray, run.experiment.model), data)


def compute(run: Run, crew: RayCrew, options: ClusterOptions, show: Show) -> dict[str, str]:
    """One writer: results are put into the record here, in the order in which they come."""
    chunks = run.chunks()
    session = run.store.log_session(now(), facts(run, options))
    pool = Pool(Schedule(range(len(chunks)), claims(run, chunks)), crew, parts(run, chunks))
    failed: dict[str, str] = {}
    written, most = 0, (0, 0)
    try:
        for outcome in pool.outcomes():
            chunk = chunks[outcome.job]
            if isinstance(outcome, GivenUp):
                failed[chunk.text] = f"{outcome.errors[-1]} ({len(outcome.errors)} attempts)"
            elif outcome.result is not None:
                run.results.put(chunk, outcome.result)
                written += 1
                most = max(most, crew.size())
                run.store.update_session(
                    session, {"chunks": written, "until": now(), "workers": most[0], "nodes": most[1]}
                )
            run.results.release(chunk)
            show(chunk, chunk.last - chunk.first, pool.status())
    finally:
        run.results.claims.close()
    run.store.end_session(session, now())
    return failed


def facts(run: Run, options: ClusterOptions) -> dict[str, Any]:
    """What the record says of this session."""
    own = {"device": options.kind, "chunks": 0, "workers": 0, "until": now()}
    return run.facts() | own | ({} if options.kind != "cpu" else {"threads": options.threads})


def parts(run: Run, chunks: list[Chunk]) -> Callable[[int], Part]:
    """A chunk as it travels, by its place in the list."""
    places = {setting.label: place for place, setting in enumerate(run.experiment.settings)}
    wanted = run.experiment.generate
    named = subjects(run.denoiser, run.data, wanted.count) if wanted else []

    def part(job: int) -> Part:
        chunk = chunks[job]
        own = named[chunk.first : chunk.last] if chunk.task == "generate" else None
        return Part(chunk.task, places[chunk.setting.label], chunk.first, chunk.last, chunk.number, own)

    return part


def claims(run: Run, chunks: list[Chunk]) -> Callable[[int], Claim]:
    """Whether a chunk is done, held by another process, or ours from now on."""

    def claim(job: int) -> Claim:
        chunk = chunks[job]
        if not run.results.claim(chunk):
            return "held"
        return "done" if run.results.done(chunk) else "mine"

    return claim

"""`bigain bench`: the speed of a model with each operator, in interleaved rounds, and the limit set by FLOPs."""

import platform
import statistics
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from torch import nn

from bigain.bench.baseline import is_baseline
from bigain.bench.break_even import Place, break_even_side, grid_side
from bigain.bench.memory import peak_bytes
from bigain.bench.ratios import compared
from bigain.bench.runners import Bench, Runner, Tell, base_model, flops_of, ready
from bigain.bench.stopwatch import PARTS, Stopwatch, seconds_of, watched, watched_modules, watched_tomesd
from bigain.compression import sites
from bigain.compression.presets import is_preset, is_setting
from bigain.metrics.intervals import Estimate
from bigain.models.architectures import example_inputs
from bigain.models.family import Inputs, native_size
from bigain.operators.base import parse
from bigain.registry import NONE


@dataclass(frozen=True)
class Measured:
    """One way to run a step. Times are seconds; ratios are medians over rounds of times in the same round."""

    name: str
    mode: str  # "eager" or "compiled"
    seconds: float
    quartiles: tuple[float, float]
    to_none: float
    to_tomesd: float | None
    flops: int
    bound: float  # times as fast as uncompressed that the FLOPs allow
    to_eager: Estimate | None = None  # compiled only
    peak_bytes: int | None = None  # allocated at once during a step, beyond the weights; eager only
    parts: dict[str, float] | None = None  # of PARTS, in one step; eager only
    interval: tuple[float, float] | None = None  # of `to_none`, 95 %; none below six rounds

    @property
    def speedup(self) -> float:
        return 1 / self.to_none

    @property
    def speedup_interval(self) -> tuple[float, float] | None:
        return None if self.interval is None else (1 / self.interval[1], 1 / self.interval[0])

    @property
    def slower(self) -> bool:
        """Whether it is significantly slower than uncompressed."""
        return self.interval is not None and self.interval[0] > 1

    @property
    def overhead(self) -> float | None:
        """Plan, merge and unmerge."""
        return None if self.parts is None else sum(self.parts[part] for part in PARTS if part != "attention")

    def as_json(self) -> dict[str, Any]:
        to_eager = self.to_eager and self.to_eager.as_json()
        speedup = {"speedup": self.speedup, "speedup_interval": self.speedup_interval}
        return asdict(self) | speedup | {"overhead": self.overhead, "to_eager": to_eager}


class Machine(NamedTuple):
    """Where it was measured, and the latents that the model was made for."""

    text: str
    versions: dict[str, str]
    native: tuple[int, int]


class Result(NamedTuple):
    """All rows; for operators that are slower here, the grid's side from which on they pay off."""

    rows: list[Measured]
    pays: dict[str, int | None]
    machine: Machine
    failed: dict[str, str]  # what could not be compiled, with the compiler's reason
    refused: dict[str, str]  # what does not run on this model, and why


def measure(bench: Bench, tell: Tell = lambda text: None) -> Result:
    """Run all operators in turn, round by round, so that other load affects them equally."""
    with torch.no_grad(), many_graphs() if bench.compiled else nullcontext():
        return measure_rounds(bench, tell)


def many_graphs() -> AbstractContextManager[None]:
    """Raise Dynamo's limit: models share the code of their class, and after eight graphs it would run eagerly."""
    import torch._dynamo

    return torch._dynamo.config.patch(recompile_limit=256)


def measure_rounds(bench: Bench, tell: Tell) -> Result:
    base, text_tokens = base_model(bench)
    inputs = example_inputs(base, bench.latent, bench.batch, text_tokens)
    device = next(base.parameters()).device
    runners, refused, failed = ready(base, bench, inputs, tell)
    times = {(r.name, r.mode): [] for r in runners}  # type: dict[tuple[str, str], list[float]]
    for number in range(bench.rounds):
        for place in range(len(runners)):
            runner = runners[(place + number) % len(runners)]  # each comes after another one in each round
            tell(f"round {number + 1} of {bench.rounds}: {runner.name}, {runner.mode}")
            taken = seconds_of(partial(runner.call, *inputs.args, **inputs.kwargs), device)
            times[runner.name, runner.mode].append(taken)
    flops = {name: flops_of(name, base, bench, text_tokens) for name in dict.fromkeys(r.name for r in runners)}
    rows = [measured(r, times, flops, details(r, inputs, bench, tell)) for r in runners]
    rows.sort(key=lambda row: row.mode == "compiled")
    slow = [row.name for row in rows if row.mode == "eager" and row.slower and is_single(row.name)]
    site = sites(base, bench.where)[0]
    now, here = grid_side(site, base, bench.latent), Place(base, site, bench.batch, text_tokens)
    pays = {}
    for name in slow:
        tell(f"at which size does {name} pay off?")
        pays[name] = break_even_side(parse(name), here, now)
    return Result(rows, pays, describe(base, bench), failed, refused)


def is_single(name: str) -> bool:
    """Whether a row is one operator of ours, which can be tried at other sizes."""
    return not (is_baseline(name) or is_preset(name) or is_setting(name))


def describe(model: nn.Module, bench: Bench) -> Machine:
    threads = f", {torch.get_num_threads()} threads" if bench.device == "cpu" else ""
    versions = {name: version(name) for name in ("bigain", "torch", "diffusers")}
    return Machine(f"{bench.device}, {platform.machine()}{threads}", versions, native_size(model))


class Details(NamedTuple):
    peak: int | None
    parts: dict[str, float] | None


def details(runner: Runner, inputs: Inputs, bench: Bench, tell: Tell) -> Details:
    """Memory, and the median of the parts over the rounds, apart from the timed steps."""
    if runner.mode == "compiled":
        return Details(None, None)
    tell(f"memory and parts: {runner.name}")
    device = next(runner.model.parameters()).device
    peak = peak_bytes(partial(runner.call, *inputs.args, **inputs.kwargs), device)
    watch, rounds = Stopwatch(device), []
    baseline = watched_tomesd(watch) if is_baseline(runner.name) else nullcontext()
    modules = [site.module for site in sites(runner.model, bench.where)]
    with baseline, watched(runner.handle, watch) if runner.handle else watched_modules(modules, watch):
        for _ in range(max(1, bench.rounds // 2)):
            watch.reset()
            runner.call(*inputs.args, **inputs.kwargs)
            rounds.append(watch.seconds)
    return Details(peak, {part: statistics.median(r[part] for r in rounds) for part in PARTS})


def measured(
    runner: Runner, times: dict[tuple[str, str], list[float]], flops: dict[str, int], found: Details
) -> Measured:
    own = times[runner.name, runner.mode]
    baseline = next((name for name, _ in times if is_baseline(name)), None)
    low, middle, high = statistics.quantiles(own, n=4) if len(own) > 1 else own * 3
    to_none = compared(own, times[NONE, runner.mode])
    return Measured(
        name=runner.name,
        mode=runner.mode,
        seconds=middle,
        quartiles=(low, high),
        to_none=to_none.value,
        to_tomesd=compared(own, times[baseline, runner.mode]).value
        if baseline and (baseline, runner.mode) in times
        else None,
        flops=flops[runner.name],
        bound=flops[NONE] / flops[runner.name],
        to_eager=compared(own, times[runner.name, "eager"]) if runner.mode == "compiled" else None,
        peak_bytes=found.peak,
        parts=found.parts,
        interval=to_none.interval,
    )

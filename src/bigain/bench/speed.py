"""`bigain bench`: how fast a model is with each operator, interleaved, beside what its FLOPs allow."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.backbones.architectures import ARCHITECTURES, Inputs, build_random, example_inputs, meta_copy
from bigain.backbones.family import family_of
from bigain.backbones.site import native_size
from bigain.bench.cost import count_flops
from bigain.bench.stopwatch import PARTS, Stopwatch, wait, watched, watched_tomesd
from bigain.compression import compress
from bigain.hooks import site_hooks
from bigain.loading import load
from bigain.operators.base import Call, Operator, parse
from bigain.registry import miss, parse_call
from bigain.tokens.grid import Grid

SIDES = (16, 24, 32, 48, 64, 96, 128)
NONE, PEER = "none", "tomesd"
OPERATORS = (
    "tomesd(ratio=0.7)",
    "tome(ratio=0.7)",
    "gated_merge(ratio=0.7)",
    "gated_merge(ratio=0.7, match='local')",
    "block_merge(ratio=0.7)",
    "sito(ratio=0.7)",
    "kv_downsample(factor=2)",
    "todo(factor=2)",
    "avg_pool(factor=2)",
    "kv_select(keep=0.25)",
)
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Bench:
    """What to measure."""

    model: str = "sd2"
    operators: tuple[str, ...] = ()  # none: all of OPERATORS that can run
    latent: tuple[int, int] | None = None
    batch: int = 1
    dtype: str = "float32"
    device: str = "cpu"
    rounds: int = 7
    compiled: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # of `compress`: where, reuse, groups

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(miss("dtype", self.dtype, DTYPES))
        for name in ("batch", "rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a number from 1; got {getattr(self, name)}")


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
    peak_bytes: int | None = None  # allocated at once during a step, beyond the weights; eager only
    parts: dict[str, float] | None = None  # of PARTS, in one step; eager only

    @property
    def speedup(self) -> float:
        return 1 / self.to_none

    @property
    def overhead(self) -> float | None:
        """Plan, merge and unmerge."""
        return None if self.parts is None else sum(self.parts[part] for part in PARTS if part != "attention")

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"speedup": self.speedup, "overhead": self.overhead}


class Machine(NamedTuple):
    """Where it was measured, and the latents that the model was made for."""

    text: str
    versions: dict[str, str]
    native: tuple[int, int]


class Result(NamedTuple):
    """All rows, and for operators that cost more than they save the grid's side from which on they pay."""

    rows: list[Measured]
    pays: dict[str, int | None]
    machine: Machine


class Runner(NamedTuple):
    """A model with something attached, or nothing, ready to be called."""

    name: str
    mode: str
    model: nn.Module
    call: Callable[..., Any]


Tell = Callable[[str], None]


@torch.no_grad()
def measure(bench: Bench, tell: Tell = lambda text: None) -> Result:
    """Steps of all operators in turn, round by round, so that a busy machine hurts all alike."""
    base = base_model(bench)
    inputs = example_inputs(base, bench.latent, bench.batch)
    names = [NONE, *(bench.operators or runnable(base))]
    tell("attaching")
    runners = [attached(name, base, bench) for name in names]
    if bench.compiled:
        runners += [Runner(r.name, "compiled", r.model, torch.compile(r.model)) for r in runners]
    times = {(r.name, r.mode): [] for r in runners}  # type: dict[tuple[str, str], list[float]]
    for number in range(-1, bench.rounds):
        for place in range(len(runners)):
            runner = runners[(place + number) % len(runners)]  # each comes after another one in each round
            tell(f"round {max(number, 0) + 1} of {bench.rounds}: {runner.name}, {runner.mode}")
            taken = seconds_of(runner, inputs)
            if number >= 0:
                times[runner.name, runner.mode].append(taken)
    flops = {name: flops_of(name, base, bench) for name in names}
    rows = [measured(r, times, flops, details(r, inputs, bench, tell)) for r in runners]
    slow = [row.name for row in rows if row.mode == "eager" and row.to_none > 1 and not row.name.startswith(PEER)]
    pays = {name: pays_from(name, base, bench, tell) for name in slow}
    return Result(rows, pays, describe(base, bench))


def describe(model: nn.Module, bench: Bench) -> Machine:
    threads = f", {torch.get_num_threads()} threads" if bench.device == "cpu" else ""
    versions = {name: version(name) for name in ("bigain", "torch", "diffusers")}
    return Machine(f"{bench.device}, {platform.machine()}{threads}", versions, native_size(model))


def base_model(bench: Bench) -> nn.Module:
    """Random weights for an architecture's name, otherwise the weights that there are."""
    dtype = DTYPES[bench.dtype]
    if bench.model in ARCHITECTURES:
        return build_random(bench.model, dtype, bench.device)
    return load(bench.model, dtype=dtype, device=bench.device).network.eval()


def runnable(model: nn.Module) -> list[str]:
    """tomesd only knows U-Nets, and is there only if it is installed."""
    has_peer = find_spec(PEER) is not None and "UNet2DConditionModel" in family_of(model).models
    return [name for name in OPERATORS if has_peer or not name.startswith(PEER)]


def twin(model: nn.Module) -> nn.Module:
    """A model with the same weights, not a copy of them."""
    other = meta_copy(model)
    for name, module in other.named_modules():
        source = model.get_submodule(name)
        module._parameters.update(source._parameters)
        module._buffers.update(source._buffers)
    return other


def attached(name: str, base: nn.Module, bench: Bench) -> Runner:
    model = twin(base)
    if name.startswith(PEER):
        peer_patch(model, name)
    elif name != NONE:
        compress(model, name, **bench.options)
    return Runner(name, "eager", model, model)


def peer_patch(model: nn.Module, name: str) -> None:
    """tomesd by the same way of writing: tomesd(ratio=0.7)."""
    if find_spec(PEER) is None:
        raise ValueError(f"{name} needs tomesd: pip install tomesd")
    if "UNet2DConditionModel" not in family_of(model).models:
        raise ValueError(f"{name} only works on U-Nets; {type(model).__name__} is none")
    import tomesd

    _, args, kwargs = parse_call(name, "peer")
    tomesd.apply_patch(model, *args, **kwargs)


def seconds_of(runner: Runner, inputs: Inputs) -> float:
    device = next(runner.model.parameters()).device
    wait(device)
    started = time.perf_counter()
    runner.call(*inputs.args, **inputs.kwargs)
    wait(device)
    return time.perf_counter() - started


def flops_of(name: str, base: nn.Module, bench: Bench) -> int:
    """Of one sample; tomesd's are those of the operator that equals it."""
    _, args, kwargs = parse_call(name, "operator") if name.startswith(PEER) else ("", (), {})
    operator = f"tome(ratio={(*args, kwargs.get('ratio', 0.5))[0]})" if name.startswith(PEER) else name
    options = bench.options if operator != NONE and not name.startswith(PEER) else {}
    size = bench.latent or native_size(base)
    return count_flops(meta_copy(base), None if operator == NONE else operator, latent=size, **options)


class Details(NamedTuple):
    peak: int | None
    parts: dict[str, float] | None


def details(runner: Runner, inputs: Inputs, bench: Bench, tell: Tell) -> Details:
    """Memory, and the median of the parts over the rounds, apart from the timed steps."""
    if runner.mode == "compiled":
        return Details(None, None)
    tell(f"memory and parts: {runner.name}")
    device = next(runner.model.parameters()).device
    peak = peak_bytes(runner, inputs)
    watch, rounds = Stopwatch(device), []
    peer = watched_tomesd(watch) if runner.name.startswith(PEER) else nullcontext()
    with peer, watched(runner.model, site_modules(runner.model, bench), watch):
        for _ in range(max(1, bench.rounds // 2)):
            watch.reset()
            runner.call(*inputs.args, **inputs.kwargs)
            rounds.append(watch.seconds)
    return Details(peak, {part: statistics.median(r[part] for r in rounds) for part in PARTS})


def site_modules(model: nn.Module, bench: Bench) -> list[nn.Module]:
    """The attentions that operators act on: the same ones where nothing is attached."""
    with compressed_twin(model, bench) as twin_model:
        return [model.get_submodule(hook.site.name) for hook in site_hooks(twin_model)]


@contextmanager
def compressed_twin(model: nn.Module, bench: Bench) -> Iterator[nn.Module]:
    other = meta_copy(model)
    with compress(other, "todo(factor=2)", **{key: v for key, v in bench.options.items() if key == "where"}):
        yield other


def pays_from(name: str, base: nn.Module, bench: Bench, tell: Tell) -> int | None:
    """The side of the smallest larger grid where an attention with the operator is faster than without, or None."""
    operator = parse(name)
    with compressed_twin(base, bench) as twin_model:
        hook = site_hooks(twin_model)[0]
    module: Any = base.get_submodule(hook.site.name)
    width, now = weights_width(module), round(hook.site.tokens**0.5)
    for side in (side for side in SIDES if side > now):
        tell(f"{name}: does it pay at {side}x{side} tokens?")
        x = torch.randn(bench.batch, side * side, width, device=bench.device, dtype=DTYPES[bench.dtype])
        call = Call(Grid(side, side), draw=torch.zeros((), dtype=torch.int64, device=bench.device))
        ways = (lambda x=x: module(x), lambda x=x, call=call: compressed_attention(module, operator, x, call))
        dense, compressed = (statistics.median(times) for times in interleaved(ways, x.device))
        if compressed < dense:
            return side
    return None


def weights_width(module: Any) -> int:
    return int(module.to_q.in_features)


def compressed_attention(module: Any, operator: Operator, x: Tensor, call: Call) -> Tensor:
    plan = operator.plan(x, call)
    return plan.restore(module(plan.queries(x), encoder_hidden_states=plan.context(x)))


def interleaved(ways: tuple[Callable[[], Any], ...], device: torch.device, rounds: int = 3) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in ways]
    for number in range(rounds + 1):
        for way, kept in zip(ways, times, strict=True):
            wait(device)
            started = time.perf_counter()
            way()
            wait(device)
            if number:
                kept.append(time.perf_counter() - started)
    return times


def peak_bytes(runner: Runner, inputs: Inputs) -> int:
    """The most memory that is allocated at once during a step, beyond what was there before."""
    device = next(runner.model.parameters()).device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        runner.call(*inputs.args, **inputs.kwargs)
        return int(torch.cuda.max_memory_allocated(device) - before)
    with silent(), torch.profiler.profile(profile_memory=True) as profile:
        runner.call(*inputs.args, **inputs.kwargs)
    live = peak = 0
    events: Any = profile.profiler
    for event in events.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


@contextmanager
def silent() -> Iterator[None]:
    """Torch's profiler writes lines of its own to standard error, past Python."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def measured(
    runner: Runner, times: dict[tuple[str, str], list[float]], flops: dict[str, int], found: Details
) -> Measured:
    own = times[runner.name, runner.mode]
    peer = next((name for name, _ in times if name.startswith(PEER)), None)
    low, middle, high = statistics.quantiles(own, n=4) if len(own) > 1 else own * 3
    return Measured(
        name=runner.name,
        mode=runner.mode,
        seconds=middle,
        quartiles=(low, high),
        to_none=paired(own, times[NONE, runner.mode]),
        to_tomesd=paired(own, times[peer, runner.mode]) if peer else None,
        flops=flops[runner.name],
        bound=flops[NONE] / flops[runner.name],
        peak_bytes=found.peak,
        parts=found.parts,
    )


def paired(own: list[float], other: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(own, other, strict=True))

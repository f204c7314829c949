"""Ways to run a step: the model with each operator that can run on it, ready to be called."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from bigain.bench.baseline import baseline_refusal, is_baseline, patch_baseline
from bigain.bench.flops import mean_flops
from bigain.checks import check_count
from bigain.compression import Compression, Handle, Setting, compress
from bigain.compression.presets import is_preset, is_setting, parts_of
from bigain.compression.setting import Groups, Sites
from bigain.loading import DTYPES, load_denoiser
from bigain.models.architectures import build_random, meta_copy, share_weights
from bigain.models.family import Inputs, native_size
from bigain.models.named import ARCHITECTURES, usual_latent
from bigain.registry import NONE, miss, parse_call

OPERATORS = (
    "tomesd(ratio=0.7)",
    "tome(ratio=0.7)",
    "gated_merge(ratio=0.7, match='exact')",
    "gated_merge(ratio=0.7, match='local')",
    "toma(ratio=0.7)",
    "block_merge(ratio=0.7)",
    "sito(ratio=0.7)",
    "kv_downsample(factor=2)",
    "todo(factor=2)",
    "avg_pool(factor=2)",
    "kv_select(keep=0.25)",
)


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
    where: Sites = None
    reuse: Literal["stage"] | None = None
    groups: Groups = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(miss("dtype", self.dtype, DTYPES))
        for name in ("batch", "rounds"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        if self.latent is None:
            object.__setattr__(self, "latent", usual_latent(self.model))

    def compression(self, operator: str) -> Compression | Setting | str:
        """An operator, attached as this bench says; settings and presets say it themselves."""
        if is_preset(operator) or is_setting(operator):
            return operator
        return Compression(operator, self.where, self.reuse, self.groups)


class Runner(NamedTuple):
    """A model with something attached, or nothing, ready to be called."""

    name: str
    mode: str
    model: nn.Module
    call: Callable[..., Any]
    handle: Handle | None  # None where nothing of ours is attached


Tell = Callable[[str], None]


class Ready(NamedTuple):
    """What can run, which operators the model refuses, and what could not be compiled, each with the reason."""

    runners: list[Runner]
    refused: dict[str, str]
    failed: dict[str, str]


def ready(base: nn.Module, bench: Bench, inputs: Inputs, tell: Tell) -> Ready:
    """Attach and warm up; what the bench does not name and the model refuses is left out."""
    refused = {} if bench.operators else refusals(base)
    names = dict.fromkeys([NONE, *(bench.operators or OPERATORS)])
    runners, errors = list[Runner](), list[ValueError]()
    for name in [name for name in names if name not in refused]:
        tell(f"warming up: {name}, eager")
        try:
            runner = attached(name, base, bench)
            runner.call(*inputs.args, **inputs.kwargs)
            runners.append(runner)
        except ValueError as error:
            if name == NONE or bench.operators:
                raise
            refused[name] = str(error)
            errors.append(error)
    if errors and not any(runner.handle for runner in runners):
        raise errors[0]
    if not bench.compiled:
        return Ready(runners, refused, {})
    both = ((r, Runner(r.name, "compiled", r.model, torch.compile(r.model), r.handle)) for r in runners)
    pairs = [(eager, compiled, compile_error(compiled, inputs, tell)) for eager, compiled in both]
    failed = {eager.name: error for eager, _, error in pairs if error is not None}
    # each right after its eager self, so that the machine has hardly changed between the two
    runners = [runner for eager, compiled, _ in pairs for runner in (eager, compiled)]
    return Ready([r for r in runners if r.mode == "eager" or r.name not in failed], refused, failed)


def compile_error(runner: Runner, inputs: Inputs, tell: Tell) -> str | None:
    """Why a step cannot be compiled; the uncompressed one must be."""
    tell(f"warming up: {runner.name}, compiled")
    try:
        runner.call(*inputs.args, **inputs.kwargs)
    except RuntimeError as error:
        if runner.name == NONE:
            raise
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None


def refusals(base: nn.Module) -> dict[str, str]:
    """Operators that need not be tried on this model, and why."""
    reason = baseline_refusal(base)
    return {} if reason is None else {name: reason for name in OPERATORS if is_baseline(name)}


def base_model(bench: Bench) -> tuple[nn.Module, int]:
    """A model with random weights for an architecture, otherwise with its own; the length of its prompts."""
    dtype = DTYPES[bench.dtype]
    if bench.model in ARCHITECTURES:
        return build_random(bench.model, dtype, bench.device), ARCHITECTURES[bench.model].text_tokens
    denoiser = load_denoiser(bench.model, dtype=dtype, device=bench.device)
    return denoiser.network.eval(), denoiser.text_tokens


def attached(name: str, base: nn.Module, bench: Bench) -> Runner:
    model = share_weights(base)
    if is_baseline(name):
        patch_baseline(model, name)
    handle = None if name == NONE or is_baseline(name) else compress(model, bench.compression(name))
    return Runner(name, "eager", model, model, handle)


def flops_of(name: str, base: nn.Module, bench: Bench, text_tokens: int) -> int:
    """Of one sample; tomesd's are those of the operator that equals it."""
    _, args, kwargs = parse_call(name, "operator") if is_baseline(name) else ("", (), {})
    operator = f"tome(ratio={(*args, kwargs.get('ratio', 0.5))[0]})" if is_baseline(name) else name
    compression = bench.compression(operator) if not is_baseline(name) else Compression(operator)
    network, size = meta_copy(base), bench.latent or native_size(base)
    return round(mean_flops(network, parts_of(compression, network), latent=size, text_tokens=text_tokens))

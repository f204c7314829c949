"""What a forward pass costs: floating-point operations, counted on the meta device."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from bigain.bench.trajectory import Parts, Size, acting, alone, usual_timesteps
from bigain.caching import Cache, skipping
from bigain.classify.policies import Exhaustive, Stages, as_policy
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler
from bigain.compression import Compression, Setting, compress
from bigain.compression.correction import enough_rows
from bigain.compression.presets import parts_of
from bigain.defaults import NUM_TRAIN_TIMESTEPS
from bigain.loading import load_denoiser
from bigain.models.architectures import build_meta, example_inputs, meta_copy
from bigain.models.family import native_size
from bigain.models.named import prompt_length, usual_latent
from bigain.models.rows import RowGroups, same_input
from bigain.zoo.catalog import bundled

MAIN = (
    None,
    Compression("tome(ratio=0.7)"),
    Compression("gated_merge(ratio=0.7)"),
    Compression("gated_merge(ratio=0.7)", reuse="stage"),
    Compression("block_merge(ratio=0.7)"),
    Compression("toma(ratio=0.7)"),
    Compression("sito(ratio=0.7)"),
    Compression("todo(factor=2)"),
    Compression("kv_downsample(factor=2)"),
    Compression("kv_downsample(factor=4)"),
)


class Cost(NamedTuple):
    """FLOPs of a forward pass for one sample, the fraction that compression saves, and the FLOPs of a decision.

    All are None where the model refuses the compression.
    """

    compression: Compression | Setting | str | None
    flops: float | None = None
    saved: float | None = None
    decision: float | None = None
    break_even: int | None = None  # the classes of a trial from which on a correction pays
    refused: str | None = None  # why


class RefusedError(ValueError):
    """What a compressed model raises that runs uncompressed."""


class Costs(NamedTuple):
    """What a model costs under several settings, at one size of latents."""

    latent: tuple[int, int]
    rows: list[Cost]


class Trial(NamedTuple):
    """The number of classes that share a noisy input, and the policy that prunes them."""

    classes: int = 1
    policy: str | None = None


def model_costs(
    model: str,
    compressions: Sequence[Compression | Setting | str | None],
    latent: tuple[int, int] | None = None,
    trial: Trial = Trial(),  # noqa: B008 - it cannot be changed
) -> Costs:
    """The FLOPs of an architecture, a bundled model or a folder; no weights are needed.

    With several classes, the cost is that of one class when all are evaluated on the same noisy input. Where operators
    act in some timesteps only, costs are means over all timesteps. A compression that the model refuses has no cost,
    but a reason; if it refuses all of them, that is an error.
    """
    latent = latent or usual_latent(model)
    if model in bundled():
        denoiser = load_denoiser(model)
        network, text_tokens = meta_copy(denoiser.network), denoiser.text_tokens
    else:
        network = build_meta(model)
        text_tokens = prompt_length(model, type(network).__name__)
    dense = count_flops(network, latent=latent, text_tokens=text_tokens)

    size: Size = {"text_tokens": text_tokens, "latent": latent or native_size(network)}

    @cache
    def group(parts: Parts, rows: int) -> float:
        if not parts:
            return rows * dense
        return rows * mean_flops(network, parts, classes=rows if trial.policy or rows > 1 else None, **size)

    rounds = policy_rounds(trial) if trial.policy else {}

    def cost(compression: Compression | Setting | str | None) -> Cost:
        parts = () if compression is None else parts_of(compression, network)
        flops = group(parts, trial.classes) / trial.classes
        decision = sum(count * group(parts, alive) for alive, count in rounds.items()) if rounds else None
        pays = None
        if any(part.correct for part in parts) and trial.policy:
            # an evaluation costs a + b / K for K classes, where b is the plan and the two mean rows
            two, four = group(parts, 2) / 2, group(parts, 4) / 4
            pays = enough_rows(4 * (two - four), dense - (2 * four - two))
        return Cost(compression, flops, 1 - flops / dense, decision, pays)

    found, errors = list[Cost](), list[RefusedError]()
    for compression in compressions:
        try:
            found.append(cost(compression))
        except RefusedError as error:
            found.append(Cost(compression, refused=str(error)))
            errors.append(error)
    if errors and len(errors) == sum(compression is not None for compression in compressions):
        raise errors[0]
    return Costs(latent or native_size(network), found)


def policy_rounds(trial: Trial) -> Counter[int]:
    """How many trials a policy runs with how many surviving classes, for policies where images do not decide that."""
    policy = as_policy(trial.policy)
    if not isinstance(policy, Stages | Exhaustive):
        raise ValueError(
            f"--policy must be stages or exhaustive, whose cost does not depend on the image, got {policy}"
        )
    state = ClassifierState.empty(trial.classes)
    rounds: Counter[int] = Counter()
    for trials in policy.rounds(state, TimestepSampler("even", NUM_TRAIN_TIMESTEPS)):
        rounds[len(state.alive)] += len(trials)
        state.add(trials, np.zeros((len(state.alive), len(trials))))
    return rounds


@torch.no_grad()
def count_flops(
    model: nn.Module,
    compression: Compression | str | None = None,
    *,
    latent: tuple[int, int] | None = None,
    text_tokens: int | None = None,
) -> int:
    """FLOPs of one forward pass of one sample of a model on the meta device, compressed or not.

    `text_tokens` is the prompt length of a text-conditioned model, by default as usual for its class. Multiply-adds
    count twice. Matrix products, convolutions and attention are counted, as in the paper.
    """
    inputs = example_inputs(model, latent, text_tokens=text_tokens)
    if compression is None:
        return counted(model, inputs)
    with refusals(), compress(model, compression):
        return counted(model, inputs)


@torch.no_grad()
def group_flops(
    model: nn.Module,
    compressions: Sequence[Compression],
    rows: int,
    *,
    latent: tuple[int, int] | None = None,
    text_tokens: int | None = None,
) -> int:
    """FLOPs of one forward pass of `rows` conditions on the same noisy input, such as the classes of a trial."""
    inputs = example_inputs(model, latent, rows, text_tokens)
    same = RowGroups(torch.zeros(rows, dtype=torch.int64, device="meta"), 1)
    with ExitStack() as stack, same_input(same), refusals():
        for compression in compressions:
            stack.enter_context(compress(model, compression))
        return counted(model, inputs)


class TrialCost(NamedTuple):
    """FLOPs of a trial: those of each class, and those that its classes share, such as a correction's mean rows."""

    each: int
    shared: int = 0

    def of(self, classes: int) -> int:
        return self.each * classes + self.shared


def trial_cost(model: nn.Module, compression: Compression | None, *, text_tokens: int | None = None) -> TrialCost:
    """What a trial costs, for any number of classes, from two counts."""
    if compression is None:
        return TrialCost(count_flops(model, text_tokens=text_tokens))
    two, four = (group_flops(model, [compression], rows, text_tokens=text_tokens) for rows in (2, 4))
    return TrialCost((four - two) // 2, 2 * two - four)


def mean_flops(
    network: nn.Module,
    parts: Sequence[Compression],
    timesteps: Iterable[float] | None = None,
    classes: int | None = None,
    **size: Unpack[Size],
) -> float:
    """FLOPs of a pass for one row, mean over timesteps, by default all; on the meta device.

    `classes` rows share a noisy input, as those of a trial; without them each row is alone, as in generation.
    """
    chosen = parts if classes else alone(parts)
    steps = usual_timesteps(parts) if timesteps is None else list(timesteps)
    counts = Counter(acting(chosen, t) for t in steps)
    return sum(count * group_flops(network, one, classes or 1, **size) for one, count in counts.items()) / (
        len(steps) * (classes or 1)
    )


@torch.no_grad()
def reused_flops(
    model: nn.Module, cache: Cache, *, latent: tuple[int, int] | None = None, text_tokens: int | None = None
) -> int:
    """FLOPs of a forward pass of one sample that reuses outputs of an earlier step."""
    inputs = example_inputs(model, latent, text_tokens=text_tokens)
    with skipping(model, cache):
        counted(model, inputs)
        return counted(model, inputs)


@contextmanager
def refusals() -> Iterator[None]:
    """What a compressed model says against its input or its operator, such as fused projections."""
    try:
        yield
    except ValueError as error:
        raise RefusedError(str(error)) from error


def counted(model: nn.Module, inputs: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        model(*inputs.args, **inputs.kwargs)
    return int(counter.get_total_flops())


def by_reason(refused: Iterable[tuple[str, str]]) -> list[str]:
    """What is refused for the same reason goes into one line: (name, reason) -> lines."""
    found: dict[str, list[str]] = {}
    for name, reason in refused:
        found.setdefault(reason, []).append(name)
    return [f"{', '.join(dict.fromkeys(names))} cannot run here: {reason}" for reason, names in found.items()]

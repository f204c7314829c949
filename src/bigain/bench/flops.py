"""What a forward pass costs: floating-point operations, counted on the meta device."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from bigain.compression import Compression, compress
from bigain.defaults import TEXT_TOKENS
from bigain.loading import load_denoiser
from bigain.models.architectures import build_meta, example_inputs, meta_copy
from bigain.models.site import native_size
from bigain.zoo.catalog import bundled

MAIN = (
    None,
    Compression("tome(ratio=0.7)"),
    Compression("gated_merge(ratio=0.7)"),
    Compression("gated_merge(ratio=0.7)", reuse="stage"),
    Compression("block_merge(ratio=0.7)"),
    Compression("sito(ratio=0.7)"),
    Compression("todo(factor=2)"),
    Compression("kv_downsample(factor=2)"),
    Compression("kv_downsample(factor=4)"),
)


class Cost(NamedTuple):
    """FLOPs of a forward pass for one sample, and the fraction that compression saves."""

    compression: Compression | None
    flops: int
    saved: float


class Costs(NamedTuple):
    """What a model costs under several settings, at one size of latents."""

    latent: tuple[int, int]
    rows: list[Cost]


def model_costs(model: str, compressions: Sequence[Compression | None], latent: tuple[int, int] | None = None) -> Costs:
    """The FLOPs of an architecture, a bundled model or a folder; no weights are needed."""
    if model in bundled():
        denoiser = load_denoiser(model)
        network, text_tokens = meta_copy(denoiser.network), denoiser.text_tokens
    else:
        network, text_tokens = build_meta(model), TEXT_TOKENS
    dense = count_flops(network, latent=latent, text_tokens=text_tokens)
    rows = []
    for compression in compressions:
        flops = count_flops(network, compression, latent=latent, text_tokens=text_tokens) if compression else dense
        rows.append(Cost(compression, flops, 1 - flops / dense))
    return Costs(latent or native_size(network), rows)


@torch.no_grad()
def count_flops(
    model: nn.Module,
    compression: Compression | str | None = None,
    *,
    latent: tuple[int, int] | None = None,
    text_tokens: int = TEXT_TOKENS,
) -> int:
    """FLOPs of one forward pass of one sample of a model on the meta device, compressed or not.

    `text_tokens` is the prompt length of a text-conditioned model. Multiply-adds count twice. Matrix products,
    convolutions and attention are counted, as in the paper.
    """
    inputs = example_inputs(model, latent, text_tokens=text_tokens)
    if compression is None:
        return counted(model, inputs)
    with compress(model, compression):
        return counted(model, inputs)


def counted(model: nn.Module, inputs: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        model(*inputs.args, **inputs.kwargs)
    return int(counter.get_total_flops())

"""What a forward pass costs: floating-point operations, counted on the meta device."""

from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from bigain.backbones.architectures import example_inputs
from bigain.backbones.denoiser import TEXT_TOKENS
from bigain.compression import compress
from bigain.operators import Operator


@torch.no_grad()
def count_flops(
    model: nn.Module,
    operator: Operator | str | None = None,
    *,
    latent: tuple[int, int] | None = None,
    text_tokens: int = TEXT_TOKENS,
    **options: Any,
) -> int:
    """FLOPs of one forward pass of one sample of a model on the meta device; options are those of `compress`.

    `text_tokens` is the length of the prompt of a model that has one; a denoiser knows its own. Multiply-adds count
    twice. Matrix products, convolutions and attention are counted, as the paper does.
    """
    inputs = example_inputs(model, latent, text_tokens=text_tokens)
    if operator is None:
        return counted(model, inputs)
    with compress(model, operator, **options):
        return counted(model, inputs)


def counted(model: nn.Module, inputs: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        model(*inputs.args, **inputs.kwargs)
    return int(counter.get_total_flops())

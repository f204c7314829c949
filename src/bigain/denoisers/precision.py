"""Training in low precision."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from diffusers.models.attention_processor import Attention, AttnProcessor, AttnProcessor2_0
from torch import nn


@contextmanager
def low_precision(network: nn.Module) -> Iterator[None]:
    """Matrix products in bfloat16 inside the `with` block, those of attention too.

    There and back this is twice as fast on a CPU as torch's fused attention.
    """
    fused = [
        (module, module.processor)
        for module in network.modules()
        if isinstance(module, Attention) and isinstance(module.processor, AttnProcessor2_0)
    ]
    for module, _ in fused:
        module.set_processor(AttnProcessor())
    try:
        with torch.autocast("cpu", torch.bfloat16):
            yield
    finally:
        for module, processor in fused:
            module.set_processor(processor)

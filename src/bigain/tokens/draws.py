"""Reproducible randomness without a generator: a hash of (seed, call number, site, position).

A hash is the same on every device and traces into a graph, where a generator would not; it needs no state but
the number of the call, so a batch, a thread or a compiled graph cannot disturb it.
"""

import torch
from torch import Tensor

from bigain.tokens.constants import numbers

MASK = 0xFFFFFFFF
# odd multipliers below 2**31: a product with a 32-bit number stays below 2**63
ROUNDS = ((16, 0x7FEB352D), (15, 0x31848BAB), (14, 0x5BD1E995))


def mix(value: Tensor) -> Tensor:
    """Scramble 32-bit numbers kept in int64: (...) -> same."""
    value = value & MASK
    for shift, factor in ROUNDS:
        value = ((value ^ (value >> shift)) * factor) & MASK
    return value ^ (value >> 16)


def draw_bits(seed: int, call: Tensor, site: int, count: int) -> Tensor:
    """32 random bits for each position: () -> (count,) int64, on the device of `call`."""
    stream = mix(mix(call + 0x9E3779B9) ^ mix(torch.full_like(call, seed * 0x10001 + site)))
    return mix(stream ^ mix(numbers(count, call.device) + 1))


def draw_normal(seed: int, call: Tensor, site: int, count: int) -> Tensor:
    """Standard normal numbers, by inverting the distribution function: () -> (count,) float32."""
    uniform = (draw_bits(seed, call, site, count).double() + 0.5) / (MASK + 1)
    return (torch.erfinv(2 * uniform - 1) * 2**0.5).float()

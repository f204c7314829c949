"""Reproducible randomness without a generator: a hash of (seed, key, site, position).

A hash is the same on every device and traces into a graph, where a generator would not; it needs no state but
the key, which is the number of the pass or a number of the image and trial, so a batch, a thread or a compiled graph
cannot disturb it.
"""

import torch
from torch import Tensor

from bigain.tokens.constants import arange

MASK = 0xFFFFFFFF
# odd multipliers below 2**31: a product with a 32-bit number stays below 2**63
ROUNDS = ((16, 0x7FEB352D), (15, 0x31848BAB), (14, 0x5BD1E995))


def mix(value: Tensor) -> Tensor:
    """Scramble 32-bit numbers kept in int64: (...) -> same."""
    value = value & MASK
    for shift, factor in ROUNDS:
        value = ((value ^ (value >> shift)) * factor) & MASK
    return value ^ (value >> 16)


def branch(key: Tensor, member: Tensor) -> Tensor:
    """A key for each member of what shares one: (1,) or (B,), (B,) -> (B,)."""
    return mix(mix(key) + (member + 1) * 0x9E3779B9)


def draw_bits(seed: int, key: Tensor, site: Tensor | int, count: int) -> Tensor:
    """32 random bits for each position under each key: (...) -> (..., count) int64, on the device of `key`."""
    place = site if isinstance(site, Tensor) else torch.full_like(key, site)
    stream = mix(mix(key + 0x9E3779B9) ^ mix(place + seed * 0x10001))
    return mix(stream[..., None] ^ mix(arange(count, key.device) + 1))


def draw_normal(seed: int, key: Tensor, site: Tensor | int, count: int) -> Tensor:
    """Standard normal numbers, by inverting the distribution function: (...) -> (..., count) float32."""
    uniform = (draw_bits(seed, key, site, count).double() + 0.5) / (MASK + 1)
    return (torch.erfinv(2 * uniform - 1) * 2**0.5).float()

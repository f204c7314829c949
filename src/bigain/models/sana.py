"""Sana: refused, because its attention is linear."""

from bigain.models.family import REFUSED

REFUSED["SanaTransformer2DModel"] = (
    "its attention is linear in the number of tokens, so that merging saves little more than it costs"
)

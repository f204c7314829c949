"""Keys and values of the prompts, projected once and looked up by cross-attention in every pass."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bigain.denoisers.base import Condition
from bigain.models.site import is_fused

TEXT = "encoder_hidden_states"
LOCK = threading.RLock()  # one table at a time stands in a model


class Lookup(nn.Module):
    """Replaces a projection of the text: maps the number of a prompt to a row of a table."""

    def __init__(self, projection: nn.Module, table: Tensor) -> None:
        super().__init__()
        self.projection = projection
        self.table = table

    def forward(self, text: Tensor, *args: Any) -> Tensor:
        if text.is_floating_point():  # somebody else's prompt, in another thread
            return self.projection(text, *args)
        return self.table.index_select(0, text[:, 0, 0])


class PromptTable:
    """The keys and values of K prompts for each cross-attention of a network.

    `condition` names the prompts by their numbers, (K, L, 1) instead of (K, L, C), and may be used, row by row, while
    the table is `standing`.
    """

    def __init__(self, network: nn.Module, condition: Condition) -> None:
        text: Tensor = condition.values[TEXT]
        with torch.no_grad():
            self.places = [
                (attention, name, Lookup(getattr(attention, name), getattr(attention, name)(text)))
                for attention in cross_attentions(network)
                for name in projections(attention)
            ]
        numbers = torch.arange(len(text), device=text.device).view(-1, 1, 1).expand(-1, text.shape[1], 1)
        self.condition = Condition({**condition.values, TEXT: numbers})

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Inside the `with` block, the network looks up keys and values instead of projecting them."""
        with LOCK:
            for attention, name, lookup in self.places:
                setattr(attention, name, lookup)
            try:
                yield
            finally:
                for attention, name, lookup in self.places:
                    setattr(attention, name, lookup.projection)


def can_remember(network: Any, condition: Condition) -> bool:
    """Whether the text goes straight from the caller to the projections."""
    return (
        TEXT in condition.values
        and type(network).__name__ == "UNet2DConditionModel"
        and network.encoder_hid_proj is None
        and all(not attention.norm_cross for attention in cross_attentions(network))
    )


def cross_attentions(network: nn.Module) -> list[Any]:
    return [module for name, module in network.named_modules() if name.endswith(".attn2")]


def projections(attention: Any) -> tuple[str, ...]:
    return ("to_kv",) if is_fused(attention) else ("to_k", "to_v")

"""How tokens enter an attention without joint text, and what all ways in have in common."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bigain.compression.correction import group_means
from bigain.models.rows import RowGroups
from bigain.models.site import is_fused
from bigain.tokens.plans import Plan
from bigain.tokens.rotary import Rotation

PURPOSE = "compression"  # of the hooks of this room
TEXT, MASK = "encoder_hidden_states", "attention_mask"


class Feed(NamedTuple):
    """What the parts of an attention get in place of what the attention itself gets.

    `inputs` are the tokens of to_q, to_k and to_v. `turns` are the rotations of what comes out of norm_q, norm_k,
    norm_added_q and norm_added_k, with the sequence at `axis`.
    """

    inputs: dict[str, Tensor]
    turns: dict[str, Rotation]
    axis: int

    def of_rows(self, rows: Tensor) -> "Feed":
        """The same for some rows; tables of one row are for all."""

        def taken(table: Tensor) -> Tensor:
            return table if table.shape[0] == 1 else table[rows]

        inputs = {name: taken(x) for name, x in self.inputs.items()}
        turns = {name: Rotation(*map(taken, turn)) for name, turn in self.turns.items()}
        return Feed(inputs, turns, self.axis)


class Entry(NamedTuple):
    """Tokens and arguments of a module, what its parts get, and how many queries, keys and text tokens there are."""

    hidden: Tensor
    kwargs: dict[str, Any]
    feed: Feed | None
    queries: int  # of the image
    keys: int  # of the image
    text: int


def after_text(x: Tensor, first: int, image: Tensor) -> Tensor:
    """Other image tokens after the text of a sequence: (B, F + N, C), (B, M, C) -> (B, F + M, C)."""
    return torch.cat([x[:, :first], image], 1) if first else image


def enter_self(name: str, module: Any, plan: Plan, x: Tensor, kwargs: dict[str, Any]) -> Entry:
    """Self-attention takes other keys as its context, and weights for them as a mask."""
    if kwargs.get(MASK) is not None:
        raise ValueError(f"{name} got an attention mask, which does not fit compressed tokens")
    queries, context, bias = plan.queries(x), plan.context(x), plan.key_bias(x)
    if context is not None or bias is not None:
        check_processor(name, module)
    kwargs = dict(kwargs)
    if context is not None:
        split_fused(module)
        kwargs[TEXT] = context
    if bias is not None:
        kwargs[MASK] = bias
    keys = queries if context is None else context
    return Entry(queries, kwargs, None, queries.shape[1], keys.shape[1], 0)


def enter_cross(name: str, module: Any, plan: Plan, x: Tensor, kwargs: dict[str, Any]) -> Entry:
    """Cross-attention gets fewer queries."""
    queries, text = plan.queries(x), text_length(kwargs)
    if kwargs.get("ip_adapter_masks") is not None and queries.shape[1] < x.shape[1]:
        raise ValueError(f'{name} got IP-Adapter masks, which do not fit merged tokens; leave "cross" out of module=')
    return Entry(queries, kwargs, None, queries.shape[1], text, text)


def mean_text(name: str, kwargs: dict[str, Any], groups: RowGroups) -> dict[str, Tensor]:
    """The text of the mean rows, if its mean over a group means something."""
    text = kwargs.get(TEXT)
    if not isinstance(text, Tensor) or not text.is_floating_point() or kwargs.get(MASK) is not None:
        raise ValueError(
            f'{name} gets masked text or the images of an IP-Adapter, which have no mean over a group; leave "cross" '
            "out of where's module=, or set correct=False"
        )
    return {TEXT: group_means(text, groups)}


def check_processor(name: str, attention: Any) -> None:
    """Perturbed-attention guidance computes self-attention itself and ignores keys and masks passed to it."""
    if type(attention.processor).__name__.startswith("PAG"):
        raise ValueError(
            f"{name} runs perturbed-attention guidance, which supports neither key-value operators nor weighted=True; "
            "use another operator, or leave the layer out with where="
        )


def check_cached(name: str, module: Any) -> None:
    """Some caches of diffusers keep what a single module gave in earlier steps, in the place of its `forward`."""
    hooks = getattr(module, "_diffusers_hook", None)
    kept = [type(hook).__name__ for hook in hooks.hooks.values() if hook._is_stateful] if hooks is not None else []
    if kept:
        raise ValueError(
            f"{name} keeps its outputs for later steps ({', '.join(kept)}), which merge other tokens; cache whole "
            "blocks, as FirstBlockCacheConfig and MagCacheConfig do, or use a key-value operator without correct=True"
        )


def text_length(kwargs: dict[str, Any]) -> int:
    text = kwargs.get("encoder_hidden_states")
    text = text[0] if isinstance(text, tuple) else text  # an IP-Adapter adds its image tokens as a second part
    return 0 if text is None else int(text.shape[1])


class KeyValue:
    """Stands in for the joint key-value projection that diffusers' fused self-attention does not have."""

    def __init__(self, attention: Any) -> None:
        self.attention = attention

    def __call__(self, x: Tensor) -> Tensor:
        # looked up now: an adapter may have wrapped the projections since
        return torch.cat([self.attention.to_k(x), self.attention.to_v(x)], -1)


def split_fused(attention: Any) -> None:
    """Let a self-attention with fused projections take keys and values from elsewhere."""
    if is_fused(attention) and not hasattr(attention, "to_kv"):
        attention.__dict__["to_kv"] = KeyValue(attention)

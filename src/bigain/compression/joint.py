"""Joint attention: which tokens go in where text stands beside the image, and the rotary positions of merged ones.

Processors stay diffusers' own. Where the queries and the keys are not the same tokens, the projections get theirs by
hooks of their own. A processor turns all rows by one table, but merged tokens of each row stand elsewhere: so it gets
no table, and what comes out of norm_q and norm_k is turned here.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from bigain.compression.correction import group_means
from bigain.compression.entry import MASK, PURPOSE, TEXT, Entry, Feed, after_text
from bigain.models.hooks import HookOwner
from bigain.models.rows import RowGroups
from bigain.models.site import Site, Stream, is_fused
from bigain.tokens.constants import arange
from bigain.tokens.plans import Places, Plan
from bigain.tokens.rotary import Rotation, rotate
from bigain.tokens.soft import SoftAssignment

TEXT_MASK = "encoder_hidden_states_mask"
ROTARY, ADAPTER = "image_rotary_emb", "ip_hidden_states"
PROJECTIONS = ("to_q", "to_k", "to_v")
NORMS = ("norm_q", "norm_k", "norm_added_q", "norm_added_k")


def text_first(stream: Stream | None, tokens: int, grid_tokens: int) -> int:
    """How many tokens of text stand before the image in one sequence."""
    return tokens - grid_tokens if stream is not None and stream.text == "first" else 0


def text_tokens(stream: Stream, first: int, kwargs: dict[str, Any]) -> int:
    """How many tokens of text a joint attention sees."""
    return int(kwargs[TEXT].shape[1]) if stream.text == "apart" else first


def enter_joint(site_hook: Any, module: Any, plan: Plan, x: Tensor, first: int, kwargs: dict[str, Any]) -> Entry:
    """Merge the image tokens of (B, F + N, C), of which the first F are text, and gather what belongs to them.

    Weighted keys stand in the sequence as often as they have tokens. This is the same as a bias of the log of their
    number, and needs no mask, which not every processor takes.
    """
    site: Site = site_hook.site
    stream: Any = site.stream
    image, cross = x[:, first:], site.kind == "cross"
    merged, context, positions = plan.queries(image), plan.context(image), plan.positions
    places = None
    if plan.key_bias(image) is not None and not cross:
        check_repeatable(site.name, plan)
        context, places = plan.unmerge(merged), repeated(plan, x.device)
        positions = places.positions
    queries = after_text(x, first, merged)
    keys = queries if context is None else after_text(x, first, context)
    kwargs = dict(kwargs)
    if kwargs.get(MASK) is not None and not cross:
        places = places or plan.places(kwargs[MASK].device)
        kwargs[MASK] = take_mask(kwargs[MASK], text_tokens(stream, first, kwargs), places)
    turns: dict[str, Rotation] = {}
    if stream.rotary is not None and kwargs.get(ROTARY) is not None:
        check_adapter(site.name, kwargs)
        tables = tuple(table.to(x.device) for table in kwargs[ROTARY])  # of positions that may lie on the CPU
        turned, words = stream.rotary(tables, 0 if cross else text_tokens(stream, first, kwargs))
        turns = turns_of(stream, *positions(turned), words)
        turns = {"norm_q": turns["norm_q"]} if cross else turns
        kwargs[ROTARY] = None
    inputs: dict[str, Tensor] = {}
    if keys is not queries:
        check_projections(site.name, module)
        inputs = {"to_k": keys, "to_v": keys} if stream.hidden == "queries" else {"to_q": queries}
        hook_parts(site_hook, module, inputs)
    hidden = queries if stream.hidden == "queries" or cross else keys
    text = text_tokens(stream, first, kwargs)
    if cross:
        text = int(kwargs[TEXT].shape[1])
    return Entry(hidden, kwargs, Feed(inputs, turns, stream.axis), merged.shape[1], keys.shape[1] - first, text)


def repeated(plan: Plan, device: torch.device) -> Places:
    """The places of the groups, and of keys that stand as often as their groups have tokens."""
    groups: Any = plan.places(device).queries
    return Places(groups, plan.unmerge(groups[..., None])[..., 0])


def turns_of(stream: Stream, queries: Rotation, keys: Rotation, text: Rotation | None) -> dict[str, Rotation]:
    if stream.text == "apart" and text is not None:
        return {"norm_q": queries, "norm_k": keys, "norm_added_q": text, "norm_added_k": text}
    return {"norm_q": queries.after(text), "norm_k": keys.after(text)}


def take_mask(mask: Tensor, text: int, places: Places) -> Tensor:
    """A mask whose entries for text come first, for fewer queries and keys: (B, 1, Q, K) or (B, K) -> same."""
    if mask.ndim == 4 and mask.shape[-2] > 1 and places.queries is not None:
        mask = take_entries(mask.transpose(-1, -2), text, places.queries).transpose(-1, -2)
    return mask if places.keys is None else take_entries(mask, text, places.keys)


def take_entries(mask: Tensor, text: int, image: Tensor) -> Tensor:
    """Entries of the text and of some image tokens along the last axis: (B, ..., F + N), (B, M) -> (B, ..., F + M)."""
    rows = max(mask.shape[0], image.shape[0])
    index = torch.cat([arange(text, mask.device).expand(image.shape[0], -1), image + text], 1)
    index = index.view(index.shape[0], *[1] * (mask.ndim - 2), -1)
    return mask.expand(rows, *mask.shape[1:]).gather(-1, index.expand(rows, *mask.shape[1:-1], -1))


def check_projections(name: str, attention: Any) -> None:
    if is_fused(attention):
        raise ValueError(
            f"{name} computes queries, keys and values from the same tokens, because its projections are fused; call "
            "unfuse_qkv_projections(), or use an operator that merges, without weighted=True"
        )
    if not hasattr(attention, "to_k"):
        raise ValueError(
            f"{name} computes queries, keys, values and its MLP in one matrix; use an operator that merges, without "
            "weighted=True, or leave it out with where=\"part='double'\""
        )


def check_repeatable(name: str, plan: Plan) -> None:
    if isinstance(plan, SoftAssignment):
        raise ValueError(
            f"{name} is joint attention, where a key stands as often as it has tokens, and toma's groups have parts of "
            "tokens; leave out weighted=True, or use gated_merge, block_merge or tome"
        )


def check_adapter(name: str, kwargs: dict[str, Any]) -> None:
    if kwargs.get(ADAPTER) is not None:
        raise ValueError(
            f"{name} gets images of an IP-Adapter, which cannot be compressed here; leave it out with where="
        )


def mean_arguments(name: str, kwargs: dict[str, Any], groups: RowGroups) -> dict[str, Tensor]:
    """Arguments of a joint attention for the mean row of each group: the mean of the text that is not masked.

    A place of the text is masked where it is so in all rows of the group.
    """
    check_adapter(name, kwargs)
    found: dict[str, Tensor] = {}
    mask = kwargs.get(TEXT_MASK)
    if mask is not None:
        share = group_means(mask.float(), groups)
        found[TEXT_MASK] = share > 0
        text = group_means(kwargs[TEXT] * mask[..., None], groups)
        found[TEXT] = text / share.clamp_min(1e-6)[..., None].to(text.dtype)
    elif kwargs.get(TEXT) is not None:
        found[TEXT] = group_means(kwargs[TEXT], groups)
    both = kwargs.get(MASK)
    if both is not None:
        share = group_means(both.expand(groups.rows.shape[0], *both.shape[1:]).float(), groups)
        found[MASK] = share > 0 if both.dtype == torch.bool else share.to(both.dtype)
    return found


def with_means(kwargs: dict[str, Any], means: dict[str, Tensor], rows: int) -> dict[str, Any]:
    """Arguments for the rows of a batch and then the mean rows."""
    both = {name: kwargs[name].expand(rows, *kwargs[name].shape[1:]) for name in means}
    return kwargs | {name: torch.cat([both[name], value.to(both[name].dtype)]) for name, value in means.items()}


class PartHook(HookOwner):
    """The hook of one part of an attention: a projection gets other tokens, what comes out of a norm is turned."""

    purpose = PURPOSE

    def __init__(self, site: Any, name: str) -> None:
        self.site = site  # the SiteHook around it, which knows the `Feed` of this thread
        self.name = name

    def attach(self, module: nn.Module) -> None:
        if self.name in PROJECTIONS:
            module.register_forward_pre_hook(self.before)
        else:
            module.register_forward_hook(self.after)

    def before(self, module: nn.Module, args: Any) -> Any:
        feed: Feed | None = self.site.feed()
        if feed is None or self.name not in feed.inputs:
            return None
        return (feed.inputs[self.name], *args[1:])

    def after(self, module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
        feed: Feed | None = self.site.feed()
        if feed is None or self.name not in feed.turns:
            return None
        return rotate(output, feed.turns[self.name], feed.axis)


def hook_parts(site_hook: Any, attention: Any, names: Collection[str]) -> None:
    """Follow projections that an adapter has wrapped since; what they wrap gets the same tokens once more."""
    for name in names:
        part = getattr(attention, name)
        if any(isinstance(getattr(hook, "__self__", None), PartHook) for hook in part._forward_pre_hooks.values()):
            continue
        if torch.compiler.is_compiling():
            raise RuntimeError(
                f"{site_hook.site.name}.{name} was replaced after compress, for example by an adapter; run the model "
                "once before it is compiled, or compress it again"
            )
        PartHook(site_hook, name).attach(part)


def part_hooks(site_hook: Any, site: Site, attention: Any) -> list[tuple[nn.Module, PartHook]]:
    """The parts of an attention that need a hook, with it."""
    if site.stream is None or site.kind == "mlp":
        return []
    names = (*PROJECTIONS, *(NORMS if site.stream.rotary is not None else ()))
    parts = ((getattr(attention, name, None), name) for name in names)
    return [(part, PartHook(site_hook, name)) for part, name in parts if isinstance(part, nn.Module)]

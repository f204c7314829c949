"""Sites, where compression can act in a model, and `Where`, which chooses among them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from torch import nn

from bigain.checks import set_plain_ints, whole
from bigain.registry import miss, parse_call
from bigain.tokens.rotary import Rotation

Kind = Literal["self", "cross", "mlp"]
KINDS = ("self", "cross", "mlp")


class Stream(NamedTuple):
    """Where a joint-attention model keeps the text beside the image, and what its attention expects.

    `text` is "apart" where the text is an argument of its own, "first" where it stands before the image in one
    sequence, and "none". `rotary` reads the attention's `image_rotary_emb`, given how many tokens of text stand first,
    as the rotations of the image and of the text; `axis` is where norm_q and norm_k have the sequence. `hidden` says
    whether the processor counts image tokens where queries or where keys are.
    """

    text: Literal["none", "apart", "first"] = "none"
    rotary: Callable[[Any, int], tuple[Rotation, Rotation | None]] | None = None
    axis: int = 1
    hidden: Literal["queries", "keys"] = "keys"


@dataclass(frozen=True)
class Site:
    """One module that tokens pass through: a self-attention, a cross-attention (its queries) or an MLP.

    A joint attention is a self-attention of the image that sees the text, too: its `stream` says where the text is.
    """

    name: str
    module: nn.Module
    kind: Kind
    block: str  # name of the transformer block around it
    part: str  # "down", "mid", "up"; "double", "single", "image"; "blocks" where a model has no such parts
    downsample: int  # how many times coarser than the latents (U-Net) or the patches (DiT) its grid is
    index: int  # number of its transformer block in the model, from 0
    tokens: int  # at the model's own latent size
    stream: Stream | None = None  # of a model with joint attention

    @property
    def stage(self) -> str:
        return f"{self.part}/{self.downsample}"


@dataclass(frozen=True)
class Where:
    """A choice of sites.

    The default depends on the model: the finest grid of a U-Net, the first 12 of 28 blocks (or the same share) of a
    transformer. `part` narrows the default; `downsample`, `tokens`, `index` and `only` choose among all sites. Parts
    are "down", "mid" and "up" in a U-Net; "double" and "single" blocks, and "image" for attention of the image alone,
    in a model with joint attention.
    """

    downsample: int | tuple[int, ...] | None = None
    tokens: int | tuple[int, ...] | None = None
    part: str | tuple[str, ...] | None = None
    index: int | tuple[int, ...] | range | None = None
    module: str | tuple[str, ...] = "self"
    only: Callable[[Site], bool] | None = None

    def __post_init__(self) -> None:
        for kind in several(self.module):
            if kind not in KINDS:
                raise ValueError(miss("module", kind, KINDS))
        for name in ("downsample", "tokens", "index"):
            choice = getattr(self, name)
            values = several(choice)
            if any(whole(value) is None for value in values):
                raise TypeError(f"{name} must be an int or a sequence of ints, got {choice!r}")
            if isinstance(choice, Iterable) and not isinstance(choice, range):
                object.__setattr__(self, name, values)  # arrays and lists as tuples
        set_plain_ints(self, ("downsample", "tokens", "index"))
        if self.only is not None and not callable(self.only):
            raise TypeError(f"only must be a function of a Site, got {self.only!r}")

    def __str__(self) -> str:
        """Only the given fields."""
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]
        shown = [f"{name}={getattr(value, '__name__', repr(value))}" for name, value in given if value is not None]
        return f"Where({', '.join(shown)})"

    def spec(self) -> str | None:
        """The string that `parse_where` turns into an equal choice; None for the default."""
        if self.only is not None:
            raise ValueError(f"{self} holds a function, which cannot be written as a string; use the other fields")
        shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return ", ".join(shown) or None

    @property
    def free(self) -> bool:
        return any(choice is not None for choice in (self.downsample, self.tokens, self.index, self.only))


def parse_where(text: str) -> Where:
    """`where(part="down", module=("self", "mlp"))` or the same without `where(` and `)`."""
    call = text if text.strip().startswith("where") else f"where({text})"
    names = [field.name for field in fields(Where) if field.name != "only"]
    try:
        name, args, kwargs = parse_call(call, "sites")
        if name != "where":
            raise ValueError(name)
    except ValueError:
        raise ValueError(
            f"cannot read the sites {text!r}; write them like part='down' or downsample=1, module=('self', 'mlp'). "
            f"Available: {', '.join(names)}"
        ) from None
    for key in kwargs:
        if key not in names:
            raise ValueError(miss("where argument", key, names))
    if args:
        raise ValueError(f"{text!r}: name each argument, like downsample=1. Available: {', '.join(names)}")
    return Where(**kwargs)


def choose(sites: list[Site], where: Where, default: Callable[[Site], bool], model: str) -> list[Site]:
    """The sites that match `where`; an empty choice raises and lists all sites."""
    of_kind = [site for site in sites if site.kind in several(where.module)]
    for kind in several(where.module):
        if not any(site.kind == kind for site in sites):
            kinds = ", ".join(sorted({site.kind for site in sites}))
            raise ValueError(f"no {kind} modules in {model}; it has {kinds}")
    for name, choice in (
        ("downsample", where.downsample),
        ("part", where.part),
        ("index", where.index),
        ("tokens", where.tokens),
    ):
        there = sorted({getattr(site, name) for site in of_kind})
        missing = [value for value in several(choice) if value not in there]
        if missing:
            raise ValueError(f"no site at {name} {', '.join(map(str, missing))}; {model} has {compact(there)}")
        if choice is not None:
            of_kind = [site for site in of_kind if getattr(site, name) in several(choice)]
    if not where.free:
        of_kind = [site for site in of_kind if default(site)]
    if where.only is not None:
        of_kind = [site for site in of_kind if where.only(site)]
    if not of_kind:
        listed = "\n".join(
            f"  {site.name} ({site.kind}, {site.part}, downsample {site.downsample}, index {site.index})"
            for site in sites
        )
        others = sorted({site.kind for site in sites if where.only and where.only(site)} - {*several(where.module)})
        hint = f"; it would match {', '.join(others)} sites: name them in module=" if others else ""
        raise ValueError(f"{where} matches no site of {model}{hint}; it has:\n{listed}")
    return of_kind


def several(choice: Any) -> tuple[Any, ...]:
    """None -> (), 3 -> (3,), (3, 4) -> (3, 4)."""
    if choice is None:
        return ()
    return tuple(choice) if isinstance(choice, Iterable) and not isinstance(choice, str) else (choice,)


def compact(values: list[Any]) -> str:
    """1, 2, 4 as they are; a long unbroken run of numbers as 0..27."""
    run = len(values) > 4 and values == list(range(values[0], values[0] + len(values)))
    return f"{values[0]}..{values[-1]}" if run else ", ".join(map(str, values))


def is_fused(attention: Any) -> bool:
    """Whether an attention computes queries, keys and values in one matrix now.

    diffusers' `Attention` keeps its flag when it is unfused; there the processor tells.
    """
    fused = bool(getattr(attention, "fused_projections", False))
    return fused and (type(attention).__name__ != "Attention" or type(attention.processor).__name__.startswith("Fused"))


def block_sites(name: str, block: Any, **place: Any) -> list[Site]:
    """The sites of a diffusers BasicTransformerBlock."""
    sites = []
    if not getattr(block, "only_cross_attention", False):
        sites.append(Site(f"{name}.attn1", block.attn1, "self", name, **place))
    if getattr(block, "attn2", None) is not None:
        sites.append(Site(f"{name}.attn2", block.attn2, "cross", name, **place))
    sites.append(Site(f"{name}.ff", block.ff, "mlp", name, **place))
    return sites

"""Where compression can act in a model, and how to say which of these places are meant."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from torch import nn

from bigain.backbones.configs import check_sizes
from bigain.checks import set_plain_ints, whole
from bigain.registry import miss, parse_call

Kind = Literal["self", "cross", "mlp"]
KINDS = ("self", "cross", "mlp")


@dataclass(frozen=True)
class Site:
    """One module that tokens pass through: a self-attention, a cross-attention (its queries) or an MLP."""

    name: str
    module: nn.Module
    kind: Kind
    block: str  # name of the transformer block around it
    part: str  # "down", "mid", "up"; "blocks" where a model has no such parts
    level: int  # how many times coarser than the latents (U-Net) or the patches (DiT) its grid is
    index: int  # number of its transformer block in the model, from 0
    tokens: int  # at the model's own latent size

    @property
    def stage(self) -> str:
        return f"{self.part}/{self.level}"


@dataclass(frozen=True)
class Where:
    """A choice of sites. Given nothing, the model family's default: the finest grid of a U-Net, the first 12 of 28
    blocks (or that share of them) of a DiT. `part` narrows the default; `level`, `tokens`, `index` and `only`
    choose freely among all sites.
    """

    level: int | tuple[int, ...] | None = None
    tokens: int | tuple[int, ...] | None = None
    part: str | tuple[str, ...] | None = None
    index: int | tuple[int, ...] | range | None = None
    module: str | tuple[str, ...] = "self"
    only: Callable[[Site], bool] | None = None

    def __post_init__(self) -> None:
        for kind in several(self.module):
            if kind not in KINDS:
                raise ValueError(miss("module", kind, KINDS))
        for name in ("level", "tokens", "index"):
            choice = getattr(self, name)
            values = several(choice)
            if any(whole(value) is None for value in values):
                raise TypeError(f"{name} is an int or several; got {choice!r}")
            if isinstance(choice, Iterable) and not isinstance(choice, range):
                object.__setattr__(self, name, values)  # arrays and lists as tuples
        set_plain_ints(self, ("level", "tokens", "index"))
        if self.only is not None and not callable(self.only):
            raise TypeError(f"only is a function of a Site, got {self.only!r}")

    def __str__(self) -> str:
        """What was given."""
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]
        shown = [f"{name}={getattr(value, '__name__', repr(value))}" for name, value in given if value is not None]
        return f"Where({', '.join(shown)})"

    @property
    def free(self) -> bool:
        return any(choice is not None for choice in (self.level, self.tokens, self.index, self.only))


def parse_where(text: str) -> Where:
    """`where(part="down", module=("self", "mlp"))` or the same without `where(` and `)`."""
    call = text if text.strip().startswith("where") else f"where({text})"
    names = [field.name for field in fields(Where) if field.name != "only"]
    try:
        name, args, kwargs = parse_call(call, "choice of sites")
        if name != "where":
            raise ValueError(name)
    except ValueError:
        raise ValueError(
            f"cannot read the choice of sites {text!r}; write it like part='down' or level=1, module=('self', 'mlp'). "
            f"There are: {', '.join(names)}"
        ) from None
    for key in kwargs:
        if key not in names:
            raise ValueError(miss("choice of sites by", key, names))
    if args:
        raise ValueError(f"{text!r}: name each choice, like level=1; there are: {', '.join(names)}")
    return Where(**kwargs)


def choose(sites: list[Site], where: Where, default: Callable[[Site], bool], model: str) -> list[Site]:
    """The sites that `where` means; an empty choice is an error that lists what there is."""
    of_kind = [site for site in sites if site.kind in several(where.module)]
    for kind in several(where.module):
        if not any(site.kind == kind for site in sites):
            kinds = ", ".join(sorted({site.kind for site in sites}))
            raise ValueError(f"no {kind} modules in {model}; it has {kinds}")
    for name, choice in (
        ("level", where.level),
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
            f"  {site.name} ({site.kind}, {site.part}, level {site.level}, index {site.index})" for site in sites
        )
        others = sorted({site.kind for site in sites if where.only and where.only(site)} - {*several(where.module)})
        hint = f"; it would match {', '.join(others)} sites: name them in module=" if others else ""
        raise ValueError(f"{where} matches no site of {model}{hint}; it has:\n{listed}")
    return of_kind


def native_size(model: Any) -> tuple[int, int]:
    """Height and width of the latents that a model was made for; a ControlNet does not say, so SD's."""
    size = model.config.get("sample_size")
    sides = several(64 if size is None else size)
    check_sizes({"sample_size": sides}, f"the configuration of {type(model).__name__}")
    return sides[0], sides[-1]


def several(choice: Any) -> tuple[Any, ...]:
    """None -> (), 3 -> (3,), (3, 4) -> (3, 4)."""
    if choice is None:
        return ()
    return tuple(choice) if isinstance(choice, Iterable) and not isinstance(choice, str) else (choice,)


def compact(values: list[Any]) -> str:
    """1, 2, 4 as they are; a long unbroken run of numbers as 0..27."""
    run = len(values) > 4 and values == list(range(values[0], values[0] + len(values)))
    return f"{values[0]}..{values[-1]}" if run else ", ".join(map(str, values))


def block_sites(name: str, block: Any, **place: Any) -> list[Site]:
    """The sites of a diffusers BasicTransformerBlock."""
    sites = []
    if not getattr(block, "only_cross_attention", False):
        sites.append(Site(f"{name}.attn1", block.attn1, "self", name, **place))
    if getattr(block, "attn2", None) is not None:
        sites.append(Site(f"{name}.attn2", block.attn2, "cross", name, **place))
    sites.append(Site(f"{name}.ff", block.ff, "mlp", name, **place))
    return sites


def site_flops(site: Site, queries: int, keys: int) -> int:
    """Multiply-adds counted twice, for one sample, as torch's flop counter does, adapters apart."""
    module: Any = site.module
    if site.kind == "mlp":
        layers = ((name, part) for name, part in module.named_modules() if isinstance(part, nn.Linear))
        return 2 * queries * sum(part.weight.numel() for name, part in layers if "lora_" not in name)
    projected = queries * (weights(module.to_q) + weights(module.to_out[0]))
    projected += keys * (weights(module.to_k) + weights(module.to_v))
    return int(2 * (projected + 2 * queries * keys * module.inner_dim))


def weights(linear: Any) -> int:
    """Number of weights of a linear layer, of the layer below if an adapter wraps it."""
    return int(getattr(linear, "base_layer", linear).weight.numel())

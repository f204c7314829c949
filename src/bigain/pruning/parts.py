"""What can be taken out of a site: heads of an attention, hidden channels of an MLP."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bigain.models.family import family_of
from bigain.models.site import Site, is_fused
from bigain.pruning.second_order import columns_of
from bigain.pruning.status import site_cost

GATED = ("GEGLU", "SwiGLU")  # the first layer gives values and gates
INTO_HEADS = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj")
OUT_OF_HEADS = ("to_out.0", "to_add_out")
BEFORE = "adapters must be merged or unloaded, and projections unfused (unfuse_qkv_projections), before prune"


@dataclass(frozen=True)
class Prunable:
    """A site with `groups` heads or channels, each of `size` columns in its last layers."""

    site: Site
    groups: int
    size: int
    last: tuple[str, ...]  # the linear layers whose columns go
    first: tuple[str, ...]  # the linear layers whose rows go with them

    def flops(self, text: int) -> int:
        """FLOPs of one row at the model's own size, nearly all in proportion to the groups."""
        return site_cost(self.site, text)


def prunable(sites: list[Site]) -> list[Prunable]:
    """The sites out of which something can be taken."""
    found = (as_mlp(site) if site.kind == "mlp" else as_attention(site) for site in sites)
    return [part for part in found if part is not None]


def check_prunable(network: nn.Module) -> list[Prunable]:
    """The same for a model, of which there must be some."""
    found = prunable(family_of(network).sites(network))
    if not found:
        raise ValueError(f"{type(network).__name__} has no attention or MLP that can be pruned")
    return found


def as_attention(site: Site) -> Prunable | None:
    """An attention with an output projection; the single blocks of FLUX have none of their own."""
    attention: Any = site.module
    last = tuple(name for name in OUT_OF_HEADS if has_part(attention, name))
    first = tuple(name for name in INTO_HEADS if has_part(attention, name))
    if "to_out.0" not in last or not {"to_q", "to_k", "to_v"} <= set(first):
        return None
    check_linear(site.name, attention, (*first, *last))
    if is_fused(attention):
        raise ValueError(f"{site.name} has fused projections; {BEFORE}")
    if isinstance(attention.processor, nn.Module) and any(True for _ in attention.processor.parameters()):
        raise ValueError(f"{site.name} has an attention processor with weights, as of an IP-Adapter; {BEFORE}")
    heads, inner = attention.heads, attention.get_submodule("to_out.0").in_features
    widths = {name: attention.get_submodule(name).out_features for name in first}
    if any(width != inner for width in widths.values()) or inner % heads:
        raise ValueError(f"{site.name} has {heads} heads and projections of {widths} channels: not whole heads")
    norms = (getattr(attention, name, None) for name in ("norm_q", "norm_k", "norm_added_q", "norm_added_k"))
    if any(weights.numel() != inner // heads for norm in norms if norm is not None for weights in norm.parameters()):
        raise ValueError(f"{site.name} normalises queries or keys across heads, so that no head can be taken out")
    return Prunable(site, heads, inner // heads, last, first)


def as_mlp(site: Site) -> Prunable | None:
    """diffusers' FeedForward; other MLPs stay as they are."""
    mlp: Any = site.module
    if type(mlp).__name__ != "FeedForward" or not has_part(mlp, "net.0.proj"):
        return None
    last = next((f"net.{i}" for i, part in enumerate(mlp.net) if i and hasattr(part, "in_features")), None)
    if last is None:
        return None
    check_linear(site.name, mlp, ("net.0.proj", last))
    channels, rows = mlp.get_submodule(last).in_features, mlp.get_submodule("net.0.proj").out_features
    if rows != channels * (2 if type(mlp.net[0]).__name__ in GATED else 1):
        return None
    return Prunable(site, channels, 1, (last,), ("net.0.proj",))


def has_part(module: nn.Module, name: str) -> bool:
    try:
        return isinstance(module.get_submodule(name), nn.Module)
    except AttributeError:
        return False


def check_linear(name: str, module: nn.Module, parts: tuple[str, ...]) -> None:
    for part in parts:
        found = module.get_submodule(part)
        if type(found) is not nn.Linear:
            raise ValueError(f"{name}.{part} is a {type(found).__name__}, not a plain linear layer; {BEFORE}")


def smaller(part: Prunable, module: Any, kept: Tensor, weights: tuple[Tensor, ...]) -> Any:
    """A module with the kept heads or channels only; all that is not cut is the module's own, hooks of parts, too."""
    found, columns = clone(module), columns_of(kept, part.size)
    for name, weight in zip(part.last, weights, strict=True):
        layer = module.get_submodule(name)
        replace_linear(found, name, weight, layer.bias)
    for name in part.first:
        layer = module.get_submodule(name)
        repeats = layer.out_features // (part.groups * part.size)  # two where there are values and gates
        rows = torch.cat([columns + i * part.groups * part.size for i in range(repeats)]).to(layer.weight.device)
        bias = None if layer.bias is None else layer.bias.detach()[rows]
        replace_linear(found, name, layer.weight.detach()[rows], bias)
    if part.site.kind != "mlp":
        found.heads = found.sliceable_head_dim = len(kept)
        found.inner_dim = found.inner_kv_dim = len(kept) * part.size
    return found


def clone(module: nn.Module) -> Any:
    """A module of the same class with the same parts, to which other parts can be given."""
    found = object.__new__(type(module))
    found.__dict__.update(vars(module))
    found.__dict__["_modules"] = dict(module._modules)
    return found


def replace_linear(module: nn.Module, name: str, weight: Tensor, bias: Tensor | None) -> None:
    """Put another layer in the place of a part, in clones of all modules on the way to it."""
    *way, last = name.split(".")
    for step in way:
        module._modules[step] = clone(module._modules[step])  # type: ignore[arg-type]
        module = module._modules[step]  # type: ignore[assignment]
    old: Any = module._modules[last]
    layer = clone(old)
    place = {"device": old.weight.device, "dtype": old.weight.dtype}
    layer.__dict__["_parameters"] = {
        "weight": nn.Parameter(weight.to(**place).contiguous(), requires_grad=False),
        "bias": None if bias is None else nn.Parameter(bias.detach().to(**place), requires_grad=False),
    }
    layer.out_features, layer.in_features = weight.shape
    module._modules[last] = layer

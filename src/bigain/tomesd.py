"""The two calls of the tomesd package, for people who switch: same names, same defaults, same merging.

import bigain.tomesd as tomesd
tomesd.apply_patch(pipe, ratio=0.5)
"""

from typing import TypeVar

from bigain.backbones.family import family_of, find_model
from bigain.backbones.site import Where, choose
from bigain.compression import compress, restore
from bigain.operators.tome import ToMe

M = TypeVar("M")


def apply_patch(
    model: M,
    ratio: float = 0.5,
    max_downsample: int = 1,
    sx: int = 2,
    sy: int = 2,
    use_rand: bool = True,
    merge_attn: bool = True,
    merge_crossattn: bool = False,
    merge_mlp: bool = False,
) -> M:
    """Attach ToMe to a model or pipeline, in place of whatever was attached, and return it."""
    wanted = {"self": merge_attn, "cross": merge_crossattn, "mlp": merge_mlp}
    modules = tuple(kind for kind, on in wanted.items() if on)
    if not modules:
        raise ValueError("nothing to merge: set merge_attn, merge_crossattn or merge_mlp")
    if max_downsample not in (1, 2, 4, 8):
        raise ValueError(f"max_downsample is 1, 2, 4 or 8; got {max_downsample!r}")
    operator = ToMe(ratio, window=(sy, sx), pattern="random" if use_rand else "corner")
    found = find_model(model)
    family = family_of(found)
    sites = family.sites(found)
    finest = min((site.level for site in sites if site.kind in modules), default=1)
    if finest > max_downsample:
        raise ValueError(
            f"max_downsample={max_downsample} reaches no attention of this model, whose finest is down-sampled by "
            f"{finest}; take max_downsample={finest}"
        )
    where = Where(only=lambda site: site.level <= max_downsample, module=modules)
    choose(sites, where, family.default(sites), type(found).__name__)  # complains before anything is taken off
    restore(found)
    compress(found, operator, where=where)
    return model


def remove_patch(model: M) -> M:
    """Remove whatever is attached to a model or pipeline, and return it."""
    restore(find_model(model))
    return model

"""The two functions of the tomesd package, for an easy switch: same names, same defaults, same merging.

import bigain.tomesd as tomesd
tomesd.apply_patch(pipe, ratio=0.5)
"""

from typing import TypeVar

from bigain.compression import compress, restore, sites
from bigain.models.family import find_model
from bigain.models.site import Where
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
    """Attach ToMe to a model or pipeline, replacing what was attached, and return the model or pipeline."""
    wanted = {"self": merge_attn, "cross": merge_crossattn, "mlp": merge_mlp}
    modules = tuple(kind for kind, on in wanted.items() if on)
    if not modules:
        raise ValueError("nothing to merge: set merge_attn, merge_crossattn or merge_mlp")
    if max_downsample not in (1, 2, 4, 8):
        raise ValueError(f"max_downsample must be 1, 2, 4 or 8, got {max_downsample!r}")
    operator = ToMe(ratio, window=(sy, sx), pattern="per_call" if use_rand else "corner")
    found = find_model(model)
    finest = min((site.downsample for site in sites(found, Where(module=modules, only=lambda site: True))), default=1)
    if finest > max_downsample:
        raise ValueError(
            f"max_downsample={max_downsample} reaches no attention of this model, whose finest has downsample "
            f"{finest}; use max_downsample={finest}"
        )
    where = Where(only=lambda site: site.downsample <= max_downsample, module=modules)
    sites(found, where)  # complains before anything is taken off
    restore(found)
    compress(found, operator, where=where)
    return model


def remove_patch(model: M) -> M:
    """Remove what is attached to a model or pipeline, and return the model or pipeline."""
    restore(find_model(model))
    return model

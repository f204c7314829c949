"""tomesd, the baseline of benchmarks."""

from importlib.util import find_spec

from torch import nn

from bigain.models.family import family_of
from bigain.registry import parse_call

BASELINE = "tomesd"


def has_baseline(model: nn.Module) -> bool:
    """Whether tomesd is installed and the model is a U-Net, the only kind it supports."""
    return find_spec(BASELINE) is not None and "UNet2DConditionModel" in family_of(model).models


def patch_baseline(model: nn.Module, name: str) -> None:
    """Apply tomesd, written like an operator: tomesd(ratio=0.7)."""
    if find_spec(BASELINE) is None:
        raise ValueError(f"{name} needs tomesd: pip install tomesd")
    if not has_baseline(model):
        raise ValueError(f"{name} only works on U-Nets, got {type(model).__name__}")
    import tomesd

    _, args, kwargs = parse_call(name, "peer")
    tomesd.apply_patch(model, *args, **kwargs)

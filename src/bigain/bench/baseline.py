"""tomesd, the baseline of benchmarks."""

from importlib.util import find_spec

from torch import nn

from bigain.models.family import family_of
from bigain.registry import parse_call

BASELINE = "tomesd"


def is_baseline(name: str) -> bool:
    """Whether an operator's text is tomesd."""
    return name.startswith(BASELINE)


def baseline_refusal(model: nn.Module) -> str | None:
    """Why tomesd cannot run here: it is not installed, or the model is no U-Net, the only kind it changes."""
    if find_spec(BASELINE) is None:
        return "needs tomesd: pip install tomesd"
    if "UNet2DConditionModel" not in family_of(model).models:
        return f"only works on U-Nets, got {type(model).__name__}"
    return None


def patch_baseline(model: nn.Module, name: str) -> None:
    """Apply tomesd, written like an operator: tomesd(ratio=0.7)."""
    refusal = baseline_refusal(model)
    if refusal is not None:
        raise ValueError(f"{name} {refusal}")
    import tomesd

    _, args, kwargs = parse_call(name, "peer")
    tomesd.apply_patch(model, *args, **kwargs)

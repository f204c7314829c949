"""Model families: what `compress` must know about a model class. A new family is one file."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from bigain.models.site import Site
from bigain.tokens.grid import Grid


class Family(NamedTuple):
    """How to find the sites of a model and the shape of its token grids."""

    models: tuple[str, ...]  # class names; matching by name keeps diffusers unimported
    latents: str  # name of the forward argument that holds the latents
    sites: Callable[[Any], list[Site]]
    default: Callable[[list[Site]], Callable[[Site], bool]]
    metric: str  # "block": match on the block's input before norm1; "module": on the module's own input
    grid: Callable[[Any, Tensor], Grid | None]  # of the whole model, or None where each spatial module has its own
    spatial: bool  # whether blocks lie in modules whose (B, C, H, W) input is the token grid

    def __reduce__(self) -> tuple[Callable[[str], "Family"], tuple[str]]:
        """A pickled model that is compressed names its family, which has functions that cannot be pickled."""
        return named_family, (self.models[0],)


FAMILIES: list[Family] = []


def named_family(model_class: str) -> Family:
    return next(family for family in FAMILIES if model_class in family.models)


def family_of(model: nn.Module) -> Family:
    """The family of a model, by its class or a base class."""
    names = {cls.__name__ for cls in type(model).__mro__}
    for family in FAMILIES:
        if names & set(family.models):
            return family
    known = ", ".join(name for family in FAMILIES for name in family.models)
    raise TypeError(
        f"{type(model).__name__} is not supported. Supported: {known}. For a wrapper, pass the model inside "
        "(.module, .get_base_model(), each of .nets)"
    )


def find_model(model_or_pipeline: Any) -> nn.Module:
    """The U-Net or transformer of a pipeline or `Denoiser`, or the model itself; a compiled model is unwrapped."""
    found = model_or_pipeline
    if not isinstance(found, nn.Module):
        parts = [getattr(found, name, None) for name in ("unet", "transformer", "network")]
        found = next((part for part in parts if isinstance(part, nn.Module)), None)
        if found is None:
            raise TypeError(
                f"model must be a torch module, a denoiser from bigain.load, or a pipeline with a unet or a "
                f"transformer, got {type(model_or_pipeline).__name__}"
            )
    return getattr(found, "_orig_mod", found)

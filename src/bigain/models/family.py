"""Model families: what `compress` must know about a model class. A new family is one file."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.models.configs import check_sizes
from bigain.models.site import Site, several
from bigain.tokens.grid import Grid

Argument = Callable[[str], Any]  # an argument of the model's forward call, by name


class Inputs(NamedTuple):
    """Arguments of a model call, by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Example(NamedTuple):
    """A model and the sizes of random inputs for it, on its device and in its dtype."""

    model: Any
    height: int  # of the latents
    width: int
    batch: int
    text_tokens: int

    def random(self, *shape: int) -> Tensor:
        """(...) -> (B, ...)."""
        return torch.randn((self.batch, *shape), device=self.model.device, dtype=self.model.dtype)

    def tokens(self, patch: int, most: int | None = None) -> Grid:
        """The token grid of the latents, of at most `most` tokens a side; `patch` is the side of a token in latents."""
        name, size = type(self.model).__name__, f"{self.height}x{self.width}"
        if self.height % patch or self.width % patch:
            raise ValueError(f"{name} needs latents whose sides are multiples of {patch}, got {size}")
        if most is not None and max(self.height, self.width) > patch * most:
            raise ValueError(
                f"latents must be at most {patch * most}x{patch * most} for this {name}, got {size}: it has a table of "
                f"{most}x{most} positions"
            )
        return Grid(self.height // patch, self.width // patch)

    def timesteps(self) -> Tensor:
        """The middle of 1,000 train timesteps: () -> (B,)."""
        return torch.full((self.batch,), 500, device=self.model.device)


class Family(NamedTuple):
    """How to find the sites of a model, the shape of its token grids, and what its forward call looks like.

    What is known of a pass travels with the call in the argument `carrier` of the model, which reaches each block as
    its argument `block_carrier`. Where that argument is no dict of the attention's arguments, `wrapped` is true and it
    is put into one on the way.
    """

    models: tuple[str, ...]  # class names; matching by name keeps diffusers unimported
    sites: Callable[[Any], list[Site]]
    default: Callable[[list[Site]], Callable[[Site], bool]]
    grid: Callable[[Any, Argument], Grid | None]  # of the whole model, or None where each spatial module has its own
    inputs: Callable[["Example"], Inputs]  # random arguments of its forward
    latents: str = "hidden_states"  # name of the forward argument that holds the latents
    metric: str = "module"  # match on the module's own input; "block": on the block's input before norm1
    side: int = 64  # of its latents, where the configuration does not say
    spatial: bool = False  # whether blocks lie in modules whose (B, C, H, W) input is the token grid
    carrier: str = "cross_attention_kwargs"
    block_carrier: str = "cross_attention_kwargs"
    wrapped: bool = False
    checkpoints: bool = True  # whether blocks get the carrier under gradient checkpointing, too
    timesteps: int = 1  # train timesteps in one unit of the model's argument `timestep`
    title: str = ""  # the published models, as people call them

    def __reduce__(self) -> tuple[Callable[[str], "Family"], tuple[str]]:
        """A pickled model that is compressed names its family, which has functions that cannot be pickled."""
        return named_family, (self.models[0],)


FAMILIES: list[Family] = []
REFUSED: dict[str, str] = {}  # class names of models for which compression makes no sense, and why


def named_family(model_class: str) -> Family:
    return next(family for family in FAMILIES if model_class in family.models)


def family_of(model: nn.Module) -> Family:
    """The family of a model, by its class or a base class."""
    classes = type(model).__mro__
    names = {cls.__name__ for cls in classes}
    for family in FAMILIES:
        if names & set(family.models):
            return family
    known = ", ".join(name for family in FAMILIES for name in family.models)
    reason = next((REFUSED[name] for name in REFUSED if name in names), None)
    if reason is not None:
        raise TypeError(f"{type(model).__name__} is not supported: {reason}. Supported: {known}")
    if any(cls.__module__.startswith("diffusers.models.") for cls in classes):
        place = type(model).__module__.rpartition(".")[2]
        raise TypeError(
            f"{type(model).__name__} (diffusers' {place}) is not supported yet; one file in bigain/models adds a "
            f"family, see docs/extend.md. Supported: {known}"
        )
    raise TypeError(
        f"{type(model).__name__} is not supported. Supported: {known}. For a wrapper, pass the model inside "
        "(.module, .get_base_model(), each of .nets)"
    )


def native_size(model: Any) -> tuple[int, int]:
    """Height and width of the model's own latents, or of its family's where the configuration does not say."""
    size = model.config.get("sample_size")
    sides = several(family_of(model).side if size is None else size)
    check_sizes({"sample_size": sides}, f"the configuration of {type(model).__name__}")
    return sides[0], sides[-1]


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

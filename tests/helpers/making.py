"""What tiny test models are made of: seeded weights and inputs."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

TEXT_TOKENS = 7
TEXT_WIDTH = 32
IDS = ("img_ids", "txt_ids")
FOR_ALL_ROWS = (*IDS, "image_rotary_emb")


class Inputs(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Backbone(NamedTuple):
    name: str
    model: type
    config: dict[str, Any]
    make_inputs: Callable[..., Inputs]

    def inputs(
        self,
        batch: int = 2,
        size: tuple[int, int] = (16, 16),
        t: Any = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> Inputs:
        """Seeded inputs; by default each row has its own timestep."""
        t = torch.linspace(100, 900, batch).long() if t is None else t
        return move(self.make_inputs(batch, size, t, seed), device)

    def build(self, seed: int = 0, **changes: Any) -> Any:
        """A model in eval mode, every weight of it random."""
        torch.manual_seed(seed)
        return awake(self._made(changes)).eval()

    def on_meta(self) -> Any:
        with torch.device("meta"):
            return self._made({}).eval()

    def _made(self, changes: dict[str, Any]) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`FluxPosEmbed` is deprecated")  # diffusers' Chroma uses it itself
            return self.model(**(self.config | changes))


def awake(model: nn.Module) -> nn.Module:
    """Zero-initialised weights get random values, so that every path has an effect."""
    for parameter in model.parameters():
        if parameter.ndim > 1 and not parameter.any():
            nn.init.normal_(parameter, std=0.2)
    return model


def noise(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def move(inputs: Any, place: Any) -> Any:
    """The same inputs on another device, or with floating-point tensors of another dtype.

    Positions are read, so that they have numbers also where a model has none.
    """
    if isinstance(inputs, Inputs):
        return Inputs(*(move(part, place) for part in inputs))
    if isinstance(inputs, tuple):
        return tuple(move(part, place) for part in inputs)
    if isinstance(inputs, dict):
        return {name: part if name in IDS and place == "meta" else move(part, place) for name, part in inputs.items()}
    if not isinstance(inputs, Tensor) or (isinstance(place, torch.dtype) and not inputs.is_floating_point()):
        return inputs
    return inputs.to(place)


def rows(make: Callable[[int], Tensor], batch: int) -> Tensor:
    """A batch whose row i depends on i alone."""
    return torch.cat([make(i) for i in range(batch)])

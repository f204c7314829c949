"""The probe: tells each transformer block, during a forward pass, what its sites need to know.

What is known of a pass travels with the call itself, in `cross_attention_kwargs`: from the model (time step) through
the spatial module (grid) to the block, which takes it out again. So there is nothing to mix up between threads,
between two passes before one backward, or in the recomputation of gradient checkpointing.
"""

import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.backbones.family import Family
from bigain.backbones.site import Site
from bigain.tokens.grid import Grid
from bigain.tokens.plan import Plan

KEY = "bigain"
CARRIER = "cross_attention_kwargs"


class Alike(NamedTuple):
    """Rows of a batch with the same noisy input under different conditions: row i has input rows[i] of `inputs`.

    Plans are made from the rows that `speak`, or all, and kept for the calls that have more rows of these inputs.
    """

    rows: Tensor
    inputs: int
    speak: Tensor | None
    kept: dict[str, Plan]


SAID = threading.local()


@contextmanager
def same_input(
    rows: Tensor, inputs: int, speak: Tensor | None = None, kept: dict[str, Plan] | None = None
) -> Iterator[None]:
    """Tell the models called inside which rows of their batch have the same noisy input: (B,) numbers below `inputs`.

    It matters to a model that is compressed with `groups="input"`, and to no other. Where the rows of an input come in
    several calls, hand all of them the same dict as `kept`, and they share the plans of the first; `speak` (B,) tells
    which rows plans are made from.
    """
    SAID.alike = Alike(rows, inputs, speak, {} if kept is None else kept)
    try:
        yield
    finally:
        SAID.alike = None


class Pass:
    """One forward pass: the time step of each row, its number, which rows are alike, and the plans made so far."""

    def __init__(self, t: Tensor | None, draw: Tensor | None, alike: Alike | None = None) -> None:
        self.t = t
        self.draw = draw
        self.alike = alike
        self.plans: dict[str, Plan] = {}
        self.on: dict[str, bool] = {}  # which jobs were switched on when this pass first came to them


class BlockCall(NamedTuple):
    """What the sites of one block may use: the block's input (B, N, C), its grid, and the pass."""

    x: Tensor
    grid: Grid
    forward: Pass


class Probe:
    """Hooks on the model, its spatial modules and its blocks; one per model, shared by all that is attached."""

    def __init__(self, model: nn.Module, family: Family) -> None:
        self.family = family
        self.model_class = type(model).__name__
        self.arguments = list(inspect.signature(type(model).forward).parameters)[1:]
        self.counting = False
        self.count = fresh_count()
        self.local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, local=threading.local())

    def attach(self, model: Any, sites: list[Site]) -> None:
        model.register_forward_pre_hook(self.enter_model, with_kwargs=True)
        for module in self.family.spatial(model):
            module.register_forward_pre_hook(self.enter_spatial, with_kwargs=True)
        for name in dict.fromkeys(site.block for site in sites):
            block = model.get_submodule(name)
            block.register_forward_pre_hook(self.enter_block, with_kwargs=True)
            block.register_forward_hook(self.leave_block)

    def current(self) -> BlockCall | None:
        """What the block that is running in this thread was told, if it was told anything."""
        found: BlockCall | None = getattr(self.local, "block", None)
        return found

    def block(self) -> BlockCall:
        found = self.current()
        if found is None:
            raise RuntimeError(
                f"a compressed block of {self.model_class} was called without its model; call the model itself. With "
                "gradient checkpointing, call backward before what you compress next"
            )
        return found

    def enter_model(self, model: nn.Module, args: Any, kwargs: Any) -> Any:
        self.local.block = None  # of a call that an error ended
        latents = self._argument(self.family.latents, args, kwargs)
        if latents is None:
            return None  # the model itself says what is missing
        t = self._argument("timestep", args, kwargs)
        if t is not None:
            t = torch.as_tensor(t, device=latents.device).reshape(-1).expand(latents.shape[0])
        draw = None
        if self.counting:
            if self.count.device != latents.device:
                self.count = fresh_count(self.count, latents.device)
            draw = self.count.clone()
            self.count.add_(1)
        told = (Pass(t, draw, getattr(SAID, "alike", None)), self.family.grid(model, latents))
        carrier = self._argument(CARRIER, args, kwargs) or {}
        return put(CARRIER, {**carrier, KEY: told}, args, kwargs, self.arguments)

    def enter_spatial(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        carrier = kwargs.get(CARRIER)
        if carrier is None or KEY not in carrier:
            return None
        x = args[0] if args else kwargs["hidden_states"]
        forward, _ = carrier[KEY]
        return args, {**kwargs, CARRIER: {**carrier, KEY: (forward, Grid(x.shape[-2], x.shape[-1]))}}

    def enter_block(self, block: nn.Module, args: Any, kwargs: Any) -> Any:
        place = BLOCK_ARGUMENTS.index(CARRIER)
        carrier = args[place] if len(args) > place else kwargs.get(CARRIER)
        if carrier is None or KEY not in carrier:
            self.local.block = None
            return None
        forward, grid = carrier[KEY]
        self.local.block = BlockCall(args[0] if args else kwargs["hidden_states"], grid, forward)
        rest = {key: value for key, value in carrier.items() if key != KEY}
        return put(CARRIER, rest or None, args, kwargs, BLOCK_ARGUMENTS)

    def leave_block(self, block: nn.Module, args: Any, output: Any) -> None:
        self.local.block = None

    def _argument(self, name: str, args: Any, kwargs: Any) -> Any:
        place = self.arguments.index(name)
        return args[place] if len(args) > place else kwargs.get(name)


def fresh_count(count: Tensor | None = None, device: torch.device | str = "cpu") -> Tensor:
    """The number of the next pass, as a tensor that may be changed in place in any mode."""
    with torch.inference_mode(False):
        return torch.zeros((), dtype=torch.int64, device=device) if count is None else count.to(device)


# of diffusers' BasicTransformerBlock.forward; gradient checkpointing passes them by position
BLOCK_ARGUMENTS = [
    "hidden_states", "attention_mask", "encoder_hidden_states", "encoder_attention_mask", "timestep", CARRIER,
]  # fmt: skip


def put(name: str, value: Any, args: Any, kwargs: Any, names: list[str]) -> tuple[Any, Any]:
    """Arguments of a call with one of them replaced, by position or by name as it came."""
    place = names.index(name)
    if len(args) > place:
        return (*args[:place], value, *args[place + 1 :]), kwargs
    return args, {**kwargs, name: value}

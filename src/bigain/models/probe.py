"""The probe: tells each transformer block, during a forward pass, what its sites need to know.

What is known of a pass travels with the call itself, in an argument that reaches the blocks (`Family.carrier`, such as
`cross_attention_kwargs`): from the model (timestep) through the spatial module (grid) to the block, which takes it out
again. So there is nothing to mix up between threads, between two passes before one backward, or in the recomputation of
gradient checkpointing.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bigain.models.calls import argument_of, arguments_of, put, takes_carrier
from bigain.models.family import Family, find_model
from bigain.models.hooks import HookOwner
from bigain.models.rows import current_rows
from bigain.models.site import Site
from bigain.models.state import ForwardState
from bigain.models.windows import Window, rows_inside, values_of
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Plan

KEY = "bigain"
VALUE = "value"  # what the carrier was, where it is no dict
LOCK = threading.RLock()  # whoever attaches, removes, begins or ends a pass holds it for that moment


class Carried(NamedTuple):
    """What travels with the call: the pass, the token grid, and the plans of the stage."""

    state: ForwardState
    grid: Grid | None
    stage_plans: dict[str, Plan]


class BlockCall(NamedTuple):
    """What the sites of one block may use: its input (B, N, C), its grid, the pass, plans made in it and its stage."""

    x: Tensor
    grid: Grid
    state: ForwardState
    plans: dict[str, Plan]
    stage_plans: dict[str, Plan]


class SpatialHook(HookOwner):
    """The hook of a module whose (B, C, H, W) input is the token grid of the blocks inside."""

    def __init__(self, stage: str, carrier: str) -> None:
        self.stage = stage
        self.carrier = carrier

    def enter(self, module: nn.Module, args: Any, kwargs: Any = None) -> Any:
        carrier = kwargs.get(self.carrier) if kwargs else None
        if carrier is None or KEY not in carrier:
            return None
        x = args[0] if args else kwargs["hidden_states"]
        state = carrier[KEY].state
        carried = Carried(state, Grid(x.shape[-2], x.shape[-1]), state.stages.setdefault(self.stage, {}))
        return args, {**kwargs, self.carrier: {**carrier, KEY: carried}}


class Probe(HookOwner):
    """Hooks on the model, its spatial modules and its blocks; one per model, shared by all that is attached.

    Another thread may be inside the model whenever something is attached or removed. So a pass notes at its beginning
    what is switched on (`active`, replaced and never changed in place), and hooks are taken off the modules only when
    no pass is running.
    """

    def __init__(self, model: nn.Module, family: Family) -> None:
        self.family = family
        self.model_class = type(model).__name__
        self.arguments = arguments_of(type(model))
        self.block_arguments: dict[str, list[str]] = {}  # by the class of the block
        self.active: tuple[str, ...] = ()  # keys of what is attached and switched on
        self.windows: dict[str, Window] = {}  # timesteps in which they act, where that is not all
        self.readers: dict[str, Callable[[Tensor | None], Any]] = {}  # of attachments that depend on the timesteps
        self.counting = False
        self.shares_inputs = False  # something makes one plan for rows with the same noisy input
        self.reads_text = False  # something needs the text itself, not the number of a prompt
        self.count = fresh_count()
        self.gone = False  # its hooks were taken off
        self._fresh()

    def _fresh(self) -> None:
        self.local = threading.local()
        self.running: set[int] = set()  # threads that are inside the model
        self.attached_in: set[int] = set()  # threads that attached something
        self.clean_up: Callable[[], None] | None = None  # what waits for the last of them

    def __getstate__(self) -> dict[str, Any]:
        own = ("local", "running", "attached_in", "clean_up")
        return {key: value for key, value in self.__dict__.items() if key not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._fresh()

    def attach(self, model: Any, sites: list[Site]) -> None:
        for name in dict.fromkeys(site.block for site in sites):
            block = model.get_submodule(name)
            self.block_arguments[type(block).__name__] = arguments_of(type(block))
            block.register_forward_hook(self.leave_block)
            block.register_forward_pre_hook(self.enter_block, with_kwargs=True)
        stages = {site.block.rpartition(".transformer_blocks.")[0]: site.stage for site in sites}
        for name, stage in stages.items() if self.family.spatial else ():
            hook = SpatialHook(stage, self.family.carrier)
            model.get_submodule(name).register_forward_pre_hook(hook.enter, with_kwargs=True)
        model.register_forward_hook(self.leave_model, always_call=True)
        # last: a pass that comes by it finds all the others in their places
        model.register_forward_pre_hook(self.enter_model, with_kwargs=True)

    def switch(self, key: str, on: bool) -> None:
        """Switch an attachment on or off, for passes that begin later."""
        with LOCK:
            others = tuple(other for other in self.active if other != key)
            self.active = (*others, key) if on else others

    def when_idle(self, clean_up: Callable[[], None]) -> None:
        """Call `clean_up` now, or when the last pass in another thread has ended."""
        with LOCK:
            alive = {thread.ident for thread in threading.enumerate()}
            if (self.running & alive) - {threading.get_ident()}:
                self.clean_up = clean_up
            else:
                clean_up()

    def leave(self, module: nn.Module) -> None:
        self.gone = True

    def current(self) -> BlockCall | None:
        """The call of the block that runs in this thread, or None."""
        found: BlockCall | None = getattr(self.local, "block", None)
        return found

    def enter_model(self, model: nn.Module, args: Any, kwargs: Any = None) -> Any:
        self.local.block = None  # of a call that an error ended

        # without kwargs torch calls a hook that another thread is just putting on or taking off
        def argument(name: str) -> Any:
            return argument_of(self.arguments, name, args, kwargs)

        latents = None if kwargs is None else argument(self.family.latents)
        if latents is None or not self._begin(model):
            return None  # without latents the model itself says what is missing
        t = argument("timestep")
        if t is not None:
            t = torch.as_tensor(t, device=latents.device).reshape(-1).expand(latents.shape[0])
            t = t if self.family.timesteps == 1 else t.float() * self.family.timesteps
        pass_index = None
        if self.counting:
            if self.count.device != latents.device:
                self.count = fresh_count(self.count, latents.device)
            pass_index = self.count.clone()
            self.count.add_(1)
        state = ForwardState(t, pass_index, current_rows(), self.active)
        state.readings = {key: read(t) for key, read in self.readers.items() if key in state.active}
        if any(key in self.windows for key in state.active):
            state = self._windowed(state, argument("timestep"), latents.shape[0])
        grid = self.family.grid(model, argument) if state.active else None  # dense, a model takes what has no grid
        carried = Carried(state, grid, {})
        name = self.family.carrier
        carrier = {VALUE: argument(name)} if self.family.wrapped else argument(name) or {}
        return put(name, {**carrier, KEY: carried}, args, kwargs, self.arguments)

    def _windowed(self, state: ForwardState, t: Any, rows: int) -> ForwardState:
        """What acts in this pass, and on which of its rows, where windows of timesteps decide that."""
        if torch.compiler.is_compiling():
            raise RuntimeError(
                f"when= looks at the timestep, which a graph of a whole {self.model_class} cannot do; compile its "
                "blocks with compile_repeated_blocks(), or leave when out"
            )
        if t is None:
            raise RuntimeError(f"when= needs a timestep, and {self.model_class} was called without one")
        timesteps = values_of(t, rows, self.family.timesteps)
        return state.among({key: rows_inside(self.windows.get(key), timesteps) for key in state.active})

    def _begin(self, model: nn.Module) -> bool:
        """Whether anything is on for this pass; hooks stay in place until it ends."""
        if torch.compiler.is_compiling():  # a compiled graph holds what it needs
            return True
        if not takes_carrier(model, self.family.carrier):
            return False
        self._check_checkpointing(model)
        with LOCK:
            if not self.gone:
                self.running.add(threading.get_ident())
            return not self.gone

    def _check_checkpointing(self, model: Any) -> None:
        if not self.family.checkpoints and model.gradient_checkpointing and torch.is_grad_enabled():
            raise RuntimeError(
                f"{self.model_class} hands nothing on to its blocks under gradient checkpointing; call "
                "disable_gradient_checkpointing() while it is compressed"
            )

    def leave_model(self, model: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        with LOCK:
            self.running.discard(threading.get_ident())
            if self.clean_up is not None:
                waiting, self.clean_up = self.clean_up, None
                self.when_idle(waiting)

    def enter_block(self, block: nn.Module, args: Any, kwargs: Any = None) -> Any:
        names, name = self.block_arguments[type(block).__name__], self.family.block_carrier
        carrier = argument_of(names, name, args, kwargs or {})
        if not isinstance(carrier, dict) or KEY not in carrier:
            self.local.block = None
            self._check_caller()
            return None
        state, grid, stage_plans = carrier[KEY]
        x = args[0] if args else kwargs["hidden_states"]
        self.local.block = BlockCall(x, grid, state, {}, stage_plans)
        rest = {key: value for key, value in carrier.items() if key != KEY}
        return put(name, rest[VALUE] if self.family.wrapped else rest or None, args, kwargs, names)

    def _check_caller(self) -> None:
        """A pass of another thread may have begun before anything was attached; one of this thread cannot."""
        if torch.compiler.is_compiling() or threading.get_ident() not in self.attached_in:
            return
        raise RuntimeError(
            f"a block of a compressed {self.model_class} was called without its model; call the model itself. "
            "With gradient checkpointing, call backward before the next compress"
        )

    def leave_block(self, block: nn.Module, args: Any, output: Any) -> None:
        self.local.block = None


def probe_of(model: nn.Module) -> Probe | None:
    owners = (getattr(hook, "__self__", None) for hook in model._forward_pre_hooks.values())
    return next((owner for owner in owners if isinstance(owner, Probe)), None)


def reads_text(model: nn.Module) -> bool:
    """Whether something attached needs the text that cross-attention gets."""
    probe = probe_of(find_model(model))
    return probe is not None and probe.reads_text


def shares_inputs(model: nn.Module) -> bool:
    """Whether something attached makes one plan for rows with the same noisy input."""
    probe = probe_of(find_model(model))
    return probe is not None and probe.shares_inputs


def fresh_count(count: Tensor | None = None, device: torch.device | str = "cpu") -> Tensor:
    """The number of the next pass, (1,), as a tensor that may be changed in place in any mode."""
    with torch.inference_mode(False):
        return torch.zeros(1, dtype=torch.int64, device=device) if count is None else count.to(device)

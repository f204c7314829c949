"""Something else computed in the place of a site's module, by hooks: smaller matrices, or what it gave before.

No hook can keep a module from running. So the module itself gets one token of one row, or no rows where it is an MLP,
and its output is replaced.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from torch import Tensor, nn

from bigain.models.family import family_of
from bigain.models.hooks import HookOwner, ThreadLocal, owners
from bigain.models.probe import LOCK, Probe, probe_of
from bigain.models.site import Site

TEXT = "encoder_hidden_states"
LEFT_OUT = ("attention_mask", "encoder_attention_mask", "encoder_hidden_states_mask", "image_rotary_emb")

# (module, its input, its other arguments, what was read off the timesteps, rows of the batch) -> output, or None
Replacement = Callable[[nn.Module, Tensor, dict[str, Any], Any, Tensor | None], Any]


class Subset(threading.local):
    """The rows of the batch that a module is called with in this thread, where it is not all of them."""

    rows: Tensor | None = None


SUBSET = Subset()


@contextmanager
def only_rows(rows: Tensor) -> Iterator[None]:
    """Inside the `with` block, modules are called with some rows of a batch."""
    before, SUBSET.rows = SUBSET.rows, rows
    try:
        yield
    finally:
        SUBSET.rows = before


class Attached:
    """What one call attached: its key in the probe, and whether it was removed."""

    def __init__(self, probe: Probe, key: str) -> None:
        self.probe = probe
        self.key = key
        self.removed = False
        self.keeps_steps = False  # outputs of one pass go into the next

    def begin(self) -> None:
        """Say that the next pass of this thread begins a trajectory."""
        reset = getattr(self.probe.readers.get(self.key), "reset", None)
        if reset is not None:
            reset()

    @property
    def active(self) -> bool:
        return self.key in self.probe.active

    def switch(self, on: bool) -> None:
        """Takes effect for passes that begin later; once removed, another attachment may have its key."""
        if not self.removed:
            self.probe.switch(self.key, on)


class StandIn(ThreadLocal, HookOwner):
    """The two hooks of one site. Where `replacement` returns None, the module runs as it is."""

    purpose: ClassVar[str | None] = "stand-in"

    def __init__(self, site: Site, attached: Attached, replacement: Replacement) -> None:
        super().__init__()
        self.name, self.is_mlp = site.name, site.kind == "mlp"
        self.attached = attached
        self.replacement = replacement

    def attach(self, module: nn.Module) -> None:
        module.register_forward_hook(self.after, prepend=True)  # hooks of compression see the output of this one
        module.register_forward_pre_hook(self.before, with_kwargs=True)

    def needed(self) -> bool:
        return not self.attached.removed

    def expect(self, rows: Tensor | None) -> None:
        """Say which rows of the batch the rows of the next input are; None for the batch itself."""
        self.local.rows = rows

    def done(self) -> bool:
        """Whether the output is there, and what runs now in this thread is of no use."""
        return getattr(self.local, "output", None) is not None

    def before(self, module: Any, args: Any, kwargs: Any = None) -> Any:
        self.local.output = None
        rows, self.local.rows = getattr(self.local, "rows", None), None
        # without kwargs torch calls a hook that another thread is just putting on or taking off
        if kwargs is None:
            return None
        x = args[0] if args else kwargs["hidden_states"]
        plain = {key: value for key, value in kwargs.items() if key != "hidden_states"}
        output = self.compute(module, x, plain, rows)
        if output is None:
            return None
        self.local.output = output
        return one_token(x, plain, self.is_mlp)

    def compute(self, module: Any, x: Tensor, kwargs: dict[str, Any], rows: Tensor | None) -> Any:
        """The output in the module's place, or None for its own."""
        block = self.acting()
        if block is None:
            return None
        return self.replacement(module, x, kwargs, block.state.readings[self.attached.key], rows)

    def after(self, module: nn.Module, args: Any, output: Any) -> Any:
        own, self.local.output = getattr(self.local, "output", None), None
        keep = getattr(self.replacement, "keep", None)  # of replacements that give the output later
        if own is None and keep is not None and self.acting() is not None:
            keep(output)
        return own

    def acting(self) -> Any:
        """The block call of this pass, if this was on when it began."""
        block = self.attached.probe.current()
        return block if block is not None and self.attached.key in block.state.active else None


def one_token(x: Tensor, kwargs: dict[str, Any], is_mlp: bool) -> tuple[Any, dict[str, Any]]:
    """The least that a module takes: an MLP no rows, an attention one token of one row."""
    if is_mlp:
        return (x[:0],), kwargs
    rest: dict[str, Any] = {key: None if key in LEFT_OUT else value for key, value in kwargs.items()}
    if isinstance(rest.get(TEXT), Tensor):
        rest[TEXT] = rest[TEXT][:1, :1]
    return (x[:1, :1],), rest


def stand_in_of(module: nn.Module) -> StandIn | None:
    """What stands in for a module."""
    found = (getattr(hook, "__self__", None) for hook in module._forward_pre_hooks.values())
    return next((owner for owner in found if isinstance(owner, StandIn)), None)


def standing_in(stand_in: StandIn | None, module: Any, x: Tensor, kwargs: dict[str, Any], rows: Tensor) -> Any:
    """What a module gives, without hooks, for an input whose rows belong to these rows of the batch."""
    output = None if stand_in is None else stand_in.compute(module, x, kwargs, rows)
    return module.forward(x, **kwargs) if output is None else output


def remove_stand_ins(model: nn.Module) -> None:
    """Switch off all that stands in for modules; its hooks go when the model is swept."""
    for stand_in in stand_ins(model):
        stand_in.attached.switch(on=False)
        stand_in.attached.removed = True


def attach_stand_ins(model: nn.Module, sites: list[Site], replacements: dict[str, Replacement], read: Any) -> Attached:
    """Put stand-ins on the sites that have a replacement; `read` turns the timesteps of a pass into what they get."""
    family, key = family_of(model), StandIn.purpose or ""
    with LOCK:
        known = probe_of(model)
        probe = known or Probe(model, family)
        attached = Attached(probe, key)
        probe.readers[key] = read
        for site in sites:
            if site.name in replacements:
                StandIn(site, attached, replacements[site.name]).attach(site.module)
        if known is None:
            probe.attach(model, family.sites(model))
        probe.attached_in.add(threading.get_ident())
        probe.reads_text = probe.reads_text or any(s.kind == "cross" and s.name in replacements for s in sites)
        attached.switch(on=True)
    return attached


def keeps_steps(model: nn.Module) -> bool:
    """Whether outputs of one pass go into the next, so that passes must come in the order of a trajectory."""
    return any(each.needed() and each.attached.keeps_steps and each.attached.active for each in stand_ins(model))


def stands_in(model: nn.Module) -> bool:
    return any(stand_in.needed() for stand_in in stand_ins(model))


def stand_ins(model: nn.Module) -> list[StandIn]:
    return [owner for owner in owners(model) if isinstance(owner, StandIn)]

"""What all hooks of ours have in common: they are found by their owners, and go when nothing needs them."""

import threading
from collections.abc import Iterator
from typing import Any, ClassVar

from torch import nn


class ThreadLocal:
    """Something with a `local` for each thread, which copies and pickles begin anew."""

    def __init__(self) -> None:
        self.local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, local=threading.local())


class HookOwner:
    """The owner of hooks on a module. Owners with the same `purpose` go together; one without goes with the last."""

    purpose: ClassVar[str | None] = None

    def needed(self) -> bool:
        """Whether something is still attached here."""
        return False

    def leave(self, module: nn.Module) -> None:
        """Called when its hooks were taken off a module."""


def our_hooks(module: nn.Module) -> Iterator[tuple[dict[int, Any], int, HookOwner]]:
    """(dict, key, owner) of each of our hooks on one module."""
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key, hook in list(hooks.items()):
            owner = getattr(hook, "__self__", None)
            if isinstance(owner, HookOwner):
                yield hooks, key, owner


def owners(model: nn.Module) -> list[HookOwner]:
    """The owners of all our hooks on a model, each once."""
    return list(dict.fromkeys(owner for module in model.modules() for _, _, owner in our_hooks(module)))


def sweep(model: nn.Module) -> None:
    """Take off the hooks of each purpose for which nothing is attached any more; with the last one all go."""
    needed = {owner.purpose for owner in owners(model) if owner.needed()}
    for module in model.modules():
        for hooks, key, owner in our_hooks(module):
            if owner.purpose in needed or (owner.purpose is None and needed):
                continue
            del hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)
            module._forward_hooks_always_called.pop(key, None)
            owner.leave(module)

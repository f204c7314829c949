"""Blocks that give what they gave in an earlier sampler step, by diffusers' own hooks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from diffusers.hooks import FirstBlockCacheConfig, HookRegistry, apply_first_block_cache
from diffusers.hooks._helpers import TransformerBlockRegistry
from diffusers.hooks.first_block_cache import _FBC_BLOCK_HOOK, _FBC_LEADER_BLOCK_HOOK, FBCHeadBlockHook
from diffusers.hooks.hooks import BaseState, CacheContext, ModelHook, StateManager
from torch import Tensor, nn

from bigain.models.caches import EVERYTHING, Steps
from bigain.models.family import family_of

KEEP = "bigain_keep"
OWN = ("forward", "_diffusers_hook")  # what diffusers' hooks leave on a module


class KeepHook(ModelHook):  # type: ignore[misc]  # diffusers' hooks have no types
    """Computes a block, or gives what it gave before. `added` keeps what a transformer block adds to its inputs."""

    _is_stateful = True

    def __init__(self, steps: Steps, manager: StateManager, added: bool) -> None:
        super().__init__()
        self.steps = steps
        self.manager = manager  # a pipeline names the trajectory here
        self.kept: dict[str, Any] = {}  # by trajectory
        self.added = added

    def initialize_hook(self, module: nn.Module) -> nn.Module:
        self._metadata = TransformerBlockRegistry.get(type(module)) if self.added else None
        return module

    def new_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        name = self.steps.name()
        if self.steps.current.reuses:
            return with_inputs(self.kept[name], self._inputs(args, kwargs)) if self.added else self.kept[name]
        output = self.fn_ref.original_forward(*args, **kwargs)
        self.kept[name] = detached(without_inputs(output, self._inputs(args, kwargs)) if self.added else output)
        return output

    def reset_state(self, module: nn.Module) -> nn.Module:
        """What diffusers' pipelines call at their end."""
        self.kept.clear()
        self.steps.forget()
        return module

    def _inputs(self, args: Any, kwargs: Any) -> tuple[Tensor | None, ...]:
        """The inputs that the outputs stand for, in the order of the outputs."""
        found: Any = self._metadata
        names = {
            found.return_hidden_states_index: found.hidden_states_argument_name,
            found.return_encoder_hidden_states_index: found.encoder_hidden_states_argument_name,
        }
        return tuple(
            found._get_parameter_from_args_kwargs(names[place], args, kwargs) for place in sorted(set(names) - {None})
        )


def parts(output: Any) -> tuple[Any, ...]:
    return output if isinstance(output, tuple) else (output,)


def without_inputs(output: Any, inputs: tuple[Any, ...]) -> Any:
    found = [None if out is None else out - x for out, x in zip(parts(output), inputs, strict=True)]
    return tuple(found) if isinstance(output, tuple) else found[0]


def with_inputs(kept: Any, inputs: tuple[Any, ...]) -> Any:
    found = [None if added is None else added + x for added, x in zip(parts(kept), inputs, strict=True)]
    return tuple(found) if isinstance(kept, tuple) else found[0]


def detached(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(detached(part) for part in value)
    return value.detach() if isinstance(value, Tensor) else value


# ---- which blocks


def deep_blocks(model: Any, depth: int | None, words: str) -> list[nn.Module]:
    """The coarsest levels of a U-Net, or the blocks in the middle of a transformer; by default all but the outer."""
    if type(model).__name__ == "UNet2DConditionModel":
        levels = len(model.down_blocks)
        count = levels - 1 if depth is None else depth
        check_depth(
            words, count, levels - 1, f"{type(model).__name__} has {levels} levels, of which the finest is kept"
        )
        down, up = list(model.down_blocks), list(model.up_blocks)
        middle = [] if model.mid_block is None else [model.mid_block]
        return [*down[levels - count :], *middle, *up[:count]]
    blocks = transformer_blocks(model, words)
    count = len(blocks) - 2 if depth is None else depth
    most = f"{type(model).__name__} has {len(blocks)} blocks, of which the first and the last are computed"
    check_depth(words, count, len(blocks) - 2, most)
    first = 1 + (len(blocks) - 2 - count) // 2
    return blocks[first : first + count]


def check_depth(words: str, depth: int, most: int, why: str) -> None:
    if not 1 <= depth <= most:
        possible = f"depth must be from 1 to {most}, got {depth}" if most else "nothing can be reused"
        raise ValueError(f"{words}: {possible}; {why}")


def transformer_blocks(model: Any, words: str) -> list[nn.Module]:
    """The blocks of a transformer in the order of its forward pass."""
    names = dict.fromkeys(site.block for site in family_of(model).sites(model))
    blocks = [model.get_submodule(name) for name in names]
    unknown = sorted({type(block).__name__ for block in blocks if not known(type(block))})
    if unknown or not hasattr(model, "transformer_blocks"):
        what = ", ".join(unknown) or "blocks of a U-Net"
        raise ValueError(f"{words} cannot act on {type(model).__name__}: diffusers keeps no outputs of its {what}")
    return blocks


def known(block_class: type) -> bool:
    try:
        TransformerBlockRegistry.get(block_class)
    except ValueError:
        return False
    return True


# ---- on and off


Undo = Callable[[], None]


def keep(model: nn.Module, blocks: Sequence[nn.Module], steps: Steps, every: int) -> Undo:
    """Compute `blocks` in every k-th step only."""
    manager = StateManager(BaseState)  # only for its context
    before = traces(model)
    added = type(model).__name__ != "UNet2DConditionModel"
    hooks = [KeepHook(steps, manager, added) for _ in blocks]
    for block, hook in zip(blocks, hooks, strict=True):
        HookRegistry.check_if_exists_or_initialize(block).register_hook(hook, KEEP)
    steps.name = lambda: EVERYTHING if manager._context is None else manager._context.name
    steps.begin = lambda name: forget(hooks, name)
    steps.reuses = lambda trajectory: trajectory.step % every > 0
    invalidate(model)

    def undo() -> None:
        for block in blocks:
            registry: Any = block._diffusers_hook
            registry.remove_hook(KEEP, recurse=False)
        clean(model, before)

    return undo


def forget(hooks: Sequence[KeepHook], name: str) -> None:
    for hook in hooks:
        hook.kept.pop(name, None)


def first_block(model: nn.Module, threshold: float, steps: Steps) -> Undo:
    """diffusers' FirstBlockCache, with a trajectory of its own where a pipeline names none."""
    before = traces(model)
    apply_first_block_cache(model, FirstBlockCacheConfig(threshold))
    invalidate(model)
    hooks = [hook for registry in registries(model) for hook in registry.hooks.values()]
    manager = next(hook.state_manager for hook in hooks if isinstance(hook, FBCHeadBlockHook))

    def name() -> str:
        if manager._context is None:
            manager.set_context(CacheContext(EVERYTHING))
        return str(manager._context.name)

    steps.name = name
    steps.begin = lambda name: forget_first(manager, name)
    steps.reused_now = lambda: not manager.get_state().should_compute

    def undo() -> None:
        for registry in registries(model):
            for hook_name in (_FBC_LEADER_BLOCK_HOOK, _FBC_BLOCK_HOOK):
                registry.remove_hook(hook_name, recurse=False)
        clean(model, before)

    return undo


def forget_first(manager: StateManager, name: str) -> None:
    manager._state_cache.pop(name, None)


def registries(model: nn.Module) -> Iterator[HookRegistry]:
    for module in model.modules():
        found = getattr(module, "_diffusers_hook", None)
        if found is not None:
            yield found


def invalidate(model: nn.Module) -> None:
    """diffusers remembers which modules have hooks."""
    found = getattr(model, "_diffusers_hook", None)
    if found is not None:
        found.invalidate_child_registries_cache()


def traces(model: nn.Module) -> dict[str, set[str]]:
    return {name: set(OWN) & vars(module).keys() for name, module in model.named_modules()}


def clean(model: nn.Module, before: dict[str, set[str]]) -> None:
    """Leave no registry and no bound forward where there was none; others may have put their own there since."""
    invalidate(model)
    for name, module in model.named_modules():
        found = vars(module).get("_diffusers_hook")
        if found is None or found.hooks:
            continue
        for attribute in set(OWN) - before.get(name, set()):
            vars(module).pop(attribute, None)

"""Caches: which passes of a model compute everything, and which take outputs of an earlier sampler step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bigain.models.family import Family, find_model
from bigain.models.probe import argument_of, arguments_of

EVERYTHING = "all"  # the name of the trajectory where a pipeline names none


class Trajectory:
    """One sampling run: the last timestep and shape of latents, the number of the step, and whether it reuses."""

    def __init__(self, t: float | None, shape: torch.Size) -> None:
        self.t = t
        self.shape = shape
        self.step = 0
        self.reuses = False


class Steps:
    """A hook on the model that follows its sampler steps.

    A trajectory begins anew where the timestep does not fall or the latents have another shape. `begin` is then called
    with its name, and `reuses` asked for each step after the first.
    """

    def __init__(self, words: str, model: nn.Module, family: Family) -> None:
        self.words = words
        self.model_class = type(model).__name__
        self.family = family
        self.arguments = arguments_of(type(model))
        self.trajectories: dict[str, Trajectory] = {}
        self.computed = self.reused = 0  # passes
        self.name: Callable[[], str] = lambda: EVERYTHING
        self.begin: Callable[[str], None] = lambda name: None
        self.reuses: Callable[[Trajectory], bool] = lambda trajectory: False
        self.reused_now: Callable[[], bool] = lambda: self.current.reuses  # asked at the end of a pass
        self.current = Trajectory(None, torch.Size())

    def enter(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            raise RuntimeError(f"{self.words} decides at each step what to compute; it cannot be compiled")
        latents = argument_of(self.arguments, self.family.latents, args, kwargs)
        if latents is None:
            return  # the model itself says what is missing
        t, name = self._time(argument_of(self.arguments, "timestep", args, kwargs)), self.name()
        known = self.trajectories.get(name)
        if known is None or known.shape != latents.shape or not falls(known.t, t):
            self.begin(name)
            known = self.trajectories[name] = Trajectory(t, latents.shape)
        else:
            known.t, known.step = t, known.step + 1
        known.reuses = known.step > 0 and self.reuses(known)
        self.current = known

    def leave(self, model: nn.Module, args: Any, output: Any) -> None:
        reused = self.reused_now()
        self.computed += not reused
        self.reused += reused

    def _time(self, t: Any) -> float | None:
        """The timestep of all rows; None on the meta device, where it has no value."""
        if not isinstance(t, Tensor):
            return float(t)
        if t.device.type == "meta":
            return None
        low, high = torch.stack(torch.aminmax(t)).tolist()
        if low != high:
            raise ValueError(
                f"{self.words} needs one timestep for all rows, got {low:g} to {high:g}: it reuses outputs of earlier "
                "sampler steps, so it can generate but not classify"
            )
        return float(low)

    def forget(self) -> None:
        """The next pass begins a trajectory."""
        self.trajectories.clear()


def falls(before: float | None, now: float | None) -> bool:
    return before is None or now is None or now < before


def steps_of(model: nn.Module) -> Steps | None:
    owners = (getattr(hook, "__self__", None) for hook in model._forward_pre_hooks.values())
    return next((owner for owner in owners if isinstance(owner, Steps)), None)


def cache_of(model_or_pipeline: Any) -> str | None:
    """What keeps outputs for later sampler steps: one of our caches, or one that diffusers' `enable_cache` put on."""
    model: Any = find_model(model_or_pipeline)
    steps = steps_of(model)
    if steps is not None:
        return steps.words
    return type(model._cache_config).__name__ if getattr(model, "_cache_config", None) is not None else None


def new_trajectory(model: nn.Module) -> None:
    """Say that other images come now, for what keeps outputs over sampler steps."""
    steps = steps_of(find_model(model))
    if steps is not None:
        steps.forget()


def refuse_cache(model: nn.Module) -> None:
    """Raise if a model that is to classify keeps outputs over sampler steps."""
    words = cache_of(model)
    if words is not None:
        raise ValueError(
            f"{words} reuses outputs of earlier sampler steps, which the trials of a classifier do not have; remove it "
            "to classify, and use bigain.compress, which needs no earlier step"
        )

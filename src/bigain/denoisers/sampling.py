"""diffusers schedulers by name, for a model's own noise schedule."""

import inspect
import math
from typing import Any

import diffusers

from bigain.denoisers.schedule import FLOW_SCHEDULER, Schedule
from bigain.registry import miss

SHORT = {"ddim": "DDIMScheduler", "euler": "EulerDiscreteScheduler", "dpm++": "DPMSolverMultistepScheduler"}
FLOW = {
    FLOW_SCHEDULER: "FlowMatchEulerDiscreteScheduler",
    "flow-heun": "FlowMatchHeunDiscreteScheduler",
    "dpm++": "DPMSolverMultistepScheduler",
}
# the inverse ones go from image to noise, CogVideoX's change the betas
OTHERS = ("DDIMInverse", "DPMSolverMultistepInverse", "CogVideoX")


def make_scheduler(name: str, schedule: Schedule, mu: float | None = None) -> Any:
    """A diffusers scheduler by its short name or class name, for predicted noise, or for the velocity of a flow model.

    It inherits the settings of the pipeline's own scheduler, such as the spacing of the timesteps. `mu` is the shift
    of a flow model whose settings ask for dynamic shifting.
    """
    if schedule.prediction_type == "flow":
        return flow_scheduler(name, schedule, mu)
    found: Any = getattr(diffusers, SHORT.get(name, name), None)
    if not usable(found):
        raise ValueError(miss("scheduler", name, scheduler_names()))
    settings = dict(schedule.settings or betas(schedule))
    if str(settings.get("variance_type")).startswith("learned"):
        del settings["variance_type"]  # the learned sigma is no part of the predicted noise
    # latents are not images: nothing to clip
    return found.from_config(settings, prediction_type="epsilon", clip_sample=False)


def flow_scheduler(name: str, schedule: Schedule, mu: float | None = None) -> Any:
    """A scheduler for velocities. Only Euler's shifts dynamically; the others are made with the shift that mu means."""
    class_name = FLOW.get(name, name)
    if class_name not in FLOW.values():
        raise ValueError(miss("scheduler for flow models", name, FLOW))
    settings = {"num_train_timesteps": schedule.num_train_timesteps, **(schedule.settings or {})}
    shift = settings.get("shift", settings.get("flow_shift", 1.0))
    if class_name == FLOW[FLOW_SCHEDULER]:
        kind: Any = diffusers.FlowMatchEulerDiscreteScheduler
        return kind(
            **{key: settings[key] for key in inspect.signature(kind).parameters if key in settings} | {"shift": shift}
        )
    if settings.get("use_dynamic_shifting") and mu is not None:
        shift = mu if settings.get("time_shift_type") == "linear" else math.exp(mu)
    steps = settings["num_train_timesteps"]
    if class_name == FLOW["flow-heun"]:
        return diffusers.FlowMatchHeunDiscreteScheduler(steps, shift)
    return diffusers.DPMSolverMultistepScheduler(
        steps, prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift
    )


def betas(schedule: Schedule) -> dict[str, Any]:
    return {
        "beta_schedule": schedule.beta_schedule,
        "beta_start": schedule.beta_start,
        "beta_end": schedule.beta_end,
        "num_train_timesteps": schedule.num_train_timesteps,
    }


def usable(kind: Any) -> bool:
    """Whether a class is a scheduler that takes betas and predicted noise."""
    plain = inspect.isclass(kind) and not isinstance(kind, diffusers.utils.DummyObject)
    if not plain or not issubclass(kind, diffusers.SchedulerMixin) or kind.__name__.startswith(OTHERS):
        return False
    if not {"beta_schedule", "beta_start", "prediction_type"} <= inspect.signature(kind).parameters.keys():
        return False
    return list(inspect.signature(kind.step).parameters)[1:4] == ["model_output", "timestep", "sample"]


def scheduler_names() -> list[str]:
    """All names that `make_scheduler` knows, short names first."""
    names = [name for name in dir(diffusers) if name.endswith("Scheduler")]
    return [*SHORT, *(name for name in names if usable(getattr(diffusers, name)))]

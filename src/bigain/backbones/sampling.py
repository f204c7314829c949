"""diffusers schedulers by name, for a model's own noise schedule."""

from typing import Any

import diffusers

from bigain.backbones.schedule import Schedule

SHORT = {"ddim": "DDIMScheduler", "euler": "EulerDiscreteScheduler", "dpm++": "DPMSolverMultistepScheduler"}


def make_scheduler(name: str, schedule: Schedule) -> Any:
    """A scheduler by its short or class name; it is handed predicted noise, whatever the network predicts."""
    class_name = SHORT.get(name, name)
    found = getattr(diffusers, class_name, None)
    if found is None or not class_name.endswith("Scheduler"):
        raise ValueError(f"no scheduler {name!r}; short names are {', '.join(SHORT)}, others by diffusers class name")
    options: dict[str, Any] = {
        "beta_schedule": schedule.beta_schedule,
        "beta_start": schedule.beta_start,
        "beta_end": schedule.beta_end,
        "num_train_timesteps": schedule.timesteps,
        "prediction_type": "epsilon",
    }
    if class_name == "DDIMScheduler":
        # the paper's DiT: no clipping (latents are not images), the last step goes all the way
        options |= {"clip_sample": False, "set_alpha_to_one": True}
    return found(**options)

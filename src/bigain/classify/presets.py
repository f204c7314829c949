"""Presets: a policy with its timesteps, by one word."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bigain.classify.policies import as_policy, paper_stages, parse_policy
from bigain.classify.state import Policy
from bigain.classify.trials import Timesteps, check_timesteps
from bigain.profile import TimestepProfile

if TYPE_CHECKING:
    from bigain.denoisers.base import Denoiser


class Preset(NamedTuple):
    """A policy for fitted timesteps, and one for models for which none were fitted."""

    fitted: str
    otherwise: str
    text: str


PRESETS = {
    "paper": Preset(
        "stages", "stages", "the paper's protocol: stages of 5 and 20 trials, with over 100 classes 5, 20 and 100"
    ),
    "balanced": Preset(
        "curtail(confidence=0.85)", "race(confidence=0.5)", "as accurate as the paper's, in fewer evaluations"
    ),
    "fast": Preset("curtail(confidence=0.73)", "race(confidence=0.2)", "the fewest evaluations, at a small loss"),
}
FITTED = "fitted"


def is_preset(policy: object) -> bool:
    return isinstance(policy, str) and policy in PRESETS


def check_policy(policy: object) -> Policy | None:
    """A policy as it would run; None for a preset, whose policy depends on the model."""
    return None if is_preset(policy) else as_policy(policy)


def policy_identity(policy: str) -> str:
    """A policy as text that changes when a preset does."""
    return f"{policy}: {PRESETS[policy].fitted} or {PRESETS[policy].otherwise}" if is_preset(policy) else policy


def resolve_timesteps(
    policy: object, timesteps: Timesteps | str | Sequence[int] | None, denoiser: "Denoiser"
) -> Timesteps:
    """The timesteps that were asked for; by default those of the preset, or even ones."""
    if timesteps is None:
        own = is_preset(policy) and policy != "paper"
        timesteps = (denoiser.profile if own else None) or "even"
    if isinstance(timesteps, str) and timesteps == FITTED:
        if denoiser.profile is None:
            raise ValueError(
                f"no timesteps were fitted for this {type(denoiser.network).__name__}; call classifier.fit(images, "
                "labels) with some images, or `bigain fit`"
            )
        timesteps = denoiser.profile
    return check_timesteps(timesteps, denoiser.schedule.num_train_timesteps)


def choose_policy(policy: Any, timesteps: Timesteps, classes: int) -> Policy:
    """A preset's policy for these timesteps and so many classes, or the policy that was asked for."""
    if policy == "paper":
        return paper_stages(classes)
    if not is_preset(policy):
        return as_policy(policy)
    fitted = isinstance(timesteps, TimestepProfile) and bool(timesteps.spreads)
    return parse_policy(PRESETS[policy].fitted if fitted else PRESETS[policy].otherwise)

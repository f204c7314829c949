"""What decides the results of an experiment besides its file, as hashes that are compared before work goes on."""

from typing import Any

from torch import nn

from bigain.classify.presets import resolve_timesteps
from bigain.data import Dataset
from bigain.denoisers.base import Denoiser
from bigain.experiments.experiment import Experiment, Setting
from bigain.experiments.fingerprints import image_hashes, profile_hash, weight_hashes
from bigain.experiments.sources import source_hashes
from bigain.experiments.store import Hashes
from bigain.experiments.subjects import real_data
from bigain.metrics.distances import INCEPTION
from bigain.metrics.inception import load_inception
from bigain.profile import TimestepProfile
from bigain.zoo.catalog import folder_of
from bigain.zoo.features import load_features


def decisive(experiment: Experiment, denoiser: Denoiser, whole: Dataset, data: Dataset) -> Hashes:
    """Hashes of what may change behind a name: images, weights, profiles, users' own code."""
    tasks = {task for setting in experiment.settings for task in setting.tasks}
    sets = [data] if "classify" in tasks else []
    others: dict[str, nn.Module] = {}
    if "generate" in tasks:
        sets.append(real_data(experiment, whole))
        if experiment.generate and experiment.generate.features:
            others["features"] = feature_network(experiment.generate.features)
    return {
        "source": source_hashes(experiment),
        "image": image_hashes(sets),
        "weights": weight_hashes(denoiser, **others),
        "profile": profile_hashes(experiment, denoiser),
    }


def profile_hashes(experiment: Experiment, denoiser: Denoiser) -> dict[str, str]:
    """Hashes of the profiles that settings use, by their labels: no preset and no file name says what is in it."""
    found = {
        setting.label: resolve_timesteps(*decision_words(experiment, setting), denoiser)
        for setting in experiment.settings
        if "classify" in setting.tasks
    }
    return {label: profile_hash(used) for label, used in found.items() if isinstance(used, TimestepProfile)}


def decision_words(experiment: Experiment, setting: Setting) -> tuple[str, Any]:
    """Policy and timesteps of a setting: its own, or the experiment's."""
    return setting.policy or experiment.policy, setting.timesteps or experiment.timesteps


def feature_network(name: str) -> nn.Module:
    """The network of a distance."""
    return load_inception() if name == INCEPTION else load_features(folder_of(name))

"""The models of a studio: loaded when they are first needed, shared by all visitors, and never changed."""

import threading
from collections.abc import Sequence

from torch import nn

from bigain.bench.flops import TrialCost, trial_cost
from bigain.compression import Compression
from bigain.data import load_data
from bigain.data.dataset import Dataset
from bigain.denoisers.base import Denoiser, share_weights
from bigain.loading import load_denoiser
from bigain.models.architectures import meta_copy
from bigain.registry import miss
from bigain.zoo.catalog import bundled, card

SAMPLES = {"fashion-mnist": "fashion-sample", "quickdraw": "quickdraw-sample"}  # bundled images of a training set

KEPT = 1000  # counted costs


class Models:
    """Loaded models by name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._lock = threading.Lock()
        self._loaded: dict[str, Denoiser] = {}
        self._meta: dict[str, nn.Module] = {}
        self._costs: dict[tuple[str, Compression | None], TrialCost] = {}

    def get(self, name: str) -> Denoiser:
        if name not in self.names:
            raise ValueError(miss("model", name, self.names))
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load_denoiser(name)
            return self._loaded[name]

    def loaded(self, name: str) -> bool:
        return name in self._loaded

    def own(self, name: str) -> Denoiser:
        """A denoiser for one answer: its weights are shared, what is attached to it is not."""
        return share_weights(self.get(name))

    def cost(self, name: str, compression: Compression | None) -> TrialCost:
        """FLOPs of a trial; counted once for each setting."""
        denoiser = self.get(name)
        with self._lock:  # counting attaches to the one copy without weights
            key = name, compression
            if key not in self._costs:
                if len(self._costs) >= KEPT:
                    self._costs.clear()
                if name not in self._meta:
                    self._meta[name] = meta_copy(denoiser.network)
                self._costs[key] = trial_cost(self._meta[name], compression, text_tokens=denoiser.text_tokens)
            return self._costs[key]

    def classes(self, name: str) -> list[str]:
        """The model's own classes; none if it takes text."""
        return list(getattr(self.get(name), "classes", ()))


def samples_of(name: str) -> Dataset | None:
    """Bundled images of the kind that a bundled model was trained on."""
    recipe = card(name).get("recipe") if name in bundled() else None
    data = SAMPLES.get(recipe["data"].partition("(")[0]) if isinstance(recipe, dict) else None
    return None if data is None else load_data(data)

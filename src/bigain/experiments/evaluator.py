"""Measurements of a setting with its images: cost, distances, similarity to the uncompressed images."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from bigain.bench.flops import count_flops, group_flops, reused_flops
from bigain.caching import Cache, cache
from bigain.classify.images import to_tensors
from bigain.experiments.chunks import GENERATED_AT_ONCE
from bigain.experiments.compute import attached
from bigain.experiments.experiment import Setting
from bigain.experiments.folder import picture_name
from bigain.experiments.rows import DecisionRow
from bigain.experiments.runner import Run
from bigain.experiments.samples import Samples, Spectra
from bigain.experiments.subjects import real_data, subjects, whole_data
from bigain.generation import generate
from bigain.metrics.distances import INCEPTION, frechet_to_real, kernel_to_real
from bigain.metrics.inception import inception_features, load_inception
from bigain.metrics.intervals import bootstrap_mean, wilson
from bigain.metrics.similarity import psnr, ssim
from bigain.metrics.spectra import radial_spectrum, spectral_distance
from bigain.models.architectures import meta_copy
from bigain.pictures import from_picture
from bigain.zoo.catalog import folder_of
from bigain.zoo.features import CLASSES, FeatureNet, load_features, predict

FEW = 100


class Size(TypedDict, total=False):
    """The size of a forward pass."""

    latent: tuple[int, int]
    text_tokens: int


class Evaluator:
    """Measures the settings of a run; shared results are computed once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.network = meta_copy(run.denoiser.network)
        self._real: tuple[Tensor, np.ndarray | None] | None = None
        wanted = run.experiment.generate
        self.features = wanted.features if wanted else None
        self.predict = feature_function(self.features)

    def evaluate(self, setting: Setting) -> None:
        """Measure what is not yet in the store."""
        number = self.run.ids[setting.label]
        known = self.run.store.measures(number)
        if "tokens" not in known:
            cost = setting_cost(self.network, setting, **self.size)
            if setting.cache is not None:
                cost["flops"] = self.cached_flops(setting, setting.cache, cost["flops"])
            for name, value in cost.items():
                self.run.store.add_measure(number, name, value)
        if "classify" in setting.tasks and "decision_flops" not in known:
            self.run.store.add_measure(number, "decision_flops", self.decision_flops(setting))
        if "classify" in setting.tasks and "difference_error" not in known and not setting.dense:
            self.run.store.add_measure(number, "difference_error", self.difference_error(setting))
        if "generate" in setting.tasks and self.unfinished(setting, known.get("samples")):
            self.run.store.add_measure(number, "samples", self.samples(setting).as_json())

    @property
    def size(self) -> Size:
        """What FLOPs depend on besides the model."""
        denoiser = self.run.denoiser
        return {"latent": denoiser.latent_shape[1:], "text_tokens": denoiser.text_tokens}

    def cached_flops(self, setting: Setting, chosen: Cache, computed: int) -> int:
        """FLOPs of a sampler step, mean over those of the first images: they are made again, to count."""
        wanted = self.run.experiment.generate
        assert wanted is not None  # a row with a cache generates
        images = min(wanted.count, GENERATED_AT_ONCE if chosen.data_dependent else 1)
        named = subjects(self.run.denoiser, self.run.data, images)
        sampling = wanted.sampling(self.run.experiment.seed, setting.num_inference_steps)
        with attached(self.run.denoiser.network, replace(setting, cache=None)), cache(self.run.denoiser, chosen) as one:
            generate(self.run.denoiser, named, sampling)
            share = one.reused / (one.computed + one.reused)
        with attached(self.network, alone(replace(setting, cache=None))):
            reused = reused_flops(self.network, chosen, **self.size)
        return round(computed + share * (reused - computed))

    def decision_flops(self, setting: Setting) -> float:
        """FLOPs of a decision, mean over images: of each trial those of its surviving classes as one group."""
        trials: Counter[int] = Counter()
        images = 0
        for row in self.run.store.each_decision(self.run.ids[setting.label]):
            images += 1
            trials.update([] if row.errors is None else (~np.isnan(row.errors)).sum(0).tolist())
        cost = {k: group_flops(self.network, setting.attach, k, **self.size) for k in trials}
        return sum(count * cost[k] for k, count in trials.items()) / max(1, images)

    def difference_error(self, setting: Setting) -> float | None:
        """Relative error of the differences between classes against the uncompressed model, on trials that both ran."""
        dense = next((s for s in self.run.experiment.settings if s.dense and "classify" in s.tasks), None)
        if dense is None:
            return None
        own, other = (self.run.store.each_decision(self.run.ids[s.label]) for s in (setting, dense))
        wrong = size = 0.0
        for a, b in of_same_images(own, other):
            differences = common_differences(a, b)
            wrong += float(np.square(differences[0] - differences[1]).sum())
            size += float(np.square(differences[1]).sum())
        return (wrong / size) ** 0.5 if size else None

    def unfinished(self, setting: Setting, samples: dict[str, Any] | None) -> bool:
        """Whether the samples were not measured yet, or not yet compared with the uncompressed model."""
        return samples is None or ("psnr" not in samples and self.uncompressed() not in (None, setting))

    def samples(self, setting: Setting) -> Samples:
        """Distances to real images, spectra, and similarity to the uncompressed images of the same seeds."""
        images = self.images(setting)
        real, _ = self.real()
        own, other = radial_spectrum(images), radial_spectrum(real)
        frequency, decibels, reference = (tuple(x.tolist()) for x in (own.frequency, own.decibels, other.decibels))
        spectra = Spectra(frequency, decibels, reference, spectral_distance(own, other))
        return replace(self.similarity(setting, images), spectra=spectra, **self.to_real(setting, images))

    def to_real(self, setting: Setting, images: Tensor) -> dict[str, Any]:
        """Distances in the features of the experiment, and how many images have the intended class."""
        _, real = self.real()
        if real is None:
            return {}
        features, predicted = self.predict(images)
        check_features(setting.label, features)
        source = f"{self.run.data.name} {self.run.data.split}"
        few = len(images) < FEW  # too few for a kernel distance in blocks
        distances = {}
        for distance in (frechet_to_real,) if few else (frechet_to_real, kernel_to_real):
            value = distance(features, real, features=named(self.features), source=source)
            distances[value.name] = value
        subjects = [row.subject for row in self.run.store.generated(self.run.ids[setting.label])]
        known = predicted is not None and predicted.known.issuperset(subjects)
        hits = sum(map(str.__eq__, predicted.names, subjects)) if predicted is not None else 0
        return {"distances": distances, "recognised": wilson(hits, len(images)) if known else None}

    def similarity(self, setting: Setting, images: Tensor) -> Samples:
        """Similarity to the uncompressed images of the same seeds, if there are any."""
        dense = self.uncompressed()
        if dense is None or dense == setting:
            return Samples(len(images))
        other = self.images(dense)
        count = min(len(images), len(other))
        mean = bootstrap_mean(ssim(images[:count], other[:count])) if count > 1 else None  # one has no interval
        return Samples(len(images), ssim=mean, psnr=float(np.median(psnr(images[:count], other[:count]))))

    def uncompressed(self) -> Setting | None:
        """The setting with nothing attached that generates, if there is one."""
        settings = self.run.experiment.settings
        return next((s for s in settings if s.dense and "generate" in s.tasks), None)

    def images(self, setting: Setting) -> Tensor:
        """All images of a setting, read from their files: (n, c, s, s)."""
        rows = self.run.store.generated(self.run.ids[setting.label])
        return torch.stack([from_picture(self.picture(setting, row.number)) for row in rows])

    def picture(self, setting: Setting, number: int) -> Image.Image:
        path = self.run.results.images(setting) / picture_name(number)
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is in the record but no longer exists; delete the run folder and run again"
            )
        with Image.open(path) as opened:
            opened.load()
            return opened.copy()

    def real(self) -> tuple[Tensor, np.ndarray | None]:
        """Real images at the model's size, and their features."""
        if self._real is None:
            data = real_data(self.run.experiment, whole_data(self.run.experiment))
            images = to_tensors([example.image for example in data.examples], self.run.denoiser.image_spec)
            features = self.predict(images)[0] if self.features else None
            if features is not None:
                check_features("real images", features)
            self._real = images, features
        return self._real


def of_same_images(
    own: Iterator[DecisionRow], other: Iterator[DecisionRow]
) -> Iterator[tuple[DecisionRow, DecisionRow]]:
    """Pairs of rows of one image, from two sequences in the order of names."""
    b = next(other, None)
    for a in own:
        while b is not None and b.image < a.image:
            b = next(other, None)
        if b is not None and b.image == a.image:
            yield a, b


def common_differences(a: DecisionRow, b: DecisionRow) -> np.ndarray:
    """Errors of both less their mean over classes, on the timesteps where both tried all classes: -> (2, K, R)."""
    if a.errors is None or b.errors is None:
        return np.zeros((2, 1, 0))
    columns = [{t: i for i, t in enumerate(row.timesteps) if np.isfinite(row.errors[:, i]).all()} for row in (a, b)]  # type: ignore[index]
    shared = [t for t in columns[0] if t in columns[1]]
    found = np.stack([a.errors[:, [columns[0][t] for t in shared]], b.errors[:, [columns[1][t] for t in shared]]])
    return found - found.mean(1, keepdims=True)


def setting_cost(network: nn.Module, setting: Setting, **size: Unpack[Size]) -> dict[str, Any]:
    """FLOPs of a forward pass for one sample; tokens, queries and keys at the compressed sites, without duplicates."""
    with attached(network, alone(replace(setting, cache=None))) as handles:
        flops = count_flops(network, **size)
        rows = [row for handle in handles for row in handle.status() if row.ran]
    return {"flops": flops, "tokens": sorted({(row.tokens, row.queries, row.keys) for row in rows})}


def alone(setting: Setting) -> Setting:
    """The setting as one sample runs it, which shares nothing."""
    return replace(setting, attach=tuple(replace(part, groups=None, correct=False) for part in setting.attach))


class Predicted(NamedTuple):
    """Predicted class names, and the names of all classes of the feature network."""

    names: list[str]
    known: set[str]


Features = Callable[[Tensor], tuple[np.ndarray, Predicted | None]]


def feature_function(name: str | None) -> Features:
    """Images -> features and, where the network classifies, names of classes."""
    if name == INCEPTION:
        inception: nn.Module = load_inception()
        return lambda images: (inception_features(inception, images), None)
    if name is None:
        return lambda images: (np.zeros((len(images), 0)), None)
    return features_of(load_features(folder_of(name)))


def features_of(network: FeatureNet) -> Features:
    classes = CLASSES[network.name]

    def both(images: Tensor) -> tuple[np.ndarray, Predicted | None]:
        features, predicted = predict(network, images)
        return features.numpy(), Predicted([classes[number] for number in predicted.tolist()], set(classes))

    return both


def check_features(what: str, features: np.ndarray) -> None:
    """Raise for features (n, d) that are not finite: their distance would look valid."""
    broken = np.flatnonzero(~np.isfinite(features).all(1))
    if len(broken):
        raise ValueError(
            f"{what}: the features of {len(broken)} of {len(features)} images are not finite, first of image "
            f"{broken[0]}; check these images and the feature network"
        )


def named(features: str | None) -> str:
    """`fashion-features` -> "fashion"."""
    return (features or "").removesuffix("-features")

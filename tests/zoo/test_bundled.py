"""The models that come with the package."""

import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
import torch

import bigain
from bigain.classify.classifier import DiffusionClassifier
from bigain.data.fashion_mnist import fashion_sample
from bigain.generation import Sampling, generate
from bigain.loading import load_denoiser
from bigain.zoo.catalog import bundled, card, folder_of
from bigain.zoo.features import CLASSES, load_features, predict

pytestmark = pytest.mark.slow

FASHION = ("fashion-dit", "fashion-mmdit", "fashion-unet")
MODELS = (*FASHION, "cifar-unet")
FEATURES = {  # accuracy, on so many images
    "fashion-features": (0.91, 10_000),
    "cifar-features": (0.84, 10_000),
    "quickdraw-features": (0.5, 6_900),
}
LIMIT = 5_000_000
ASKED = {  # accuracy, recognised
    "fashion-dit": (0.85, 0.9),
    "fashion-unet": (0.85, 0.9),
    "fashion-mmdit": (0.8, 0.9),
    "cifar-unet": (0.45, 0.8),
}


def test_what_there_is() -> None:
    assert set(bundled()) == {*MODELS, *FEATURES}
    for folder in bundled().values():
        assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < LIMIT
        kinds = {file.suffix for file in folder.rglob("*") if file.is_file()}
        assert kinds <= {".json", ".safetensors", ".md", ".png"}  # nothing that could be unpickled


@pytest.mark.parametrize("name", MODELS)
def test_the_cards_keep_what_was_asked_for(name: str) -> None:
    found, (right, recognised) = card(name), ASKED[name]
    assert found["accuracy"]["n"] == 1000
    assert found["accuracy"]["value"] >= right
    assert found["accuracy"]["low"] < found["accuracy"]["value"] < found["accuracy"]["high"]
    assert found["samples"]["recognised"]["n"] == 500
    assert found["samples"]["recognised"]["value"] >= recognised
    assert found["samples"]["distance"]["name"] == f"FD-{name.partition('-')[0]}"
    whole_batches = found["recipe"]["samples"] // found["recipe"]["batch"] * found["recipe"]["batch"]
    assert found["curve"][-1]["samples"] == found["samples_seen"] == whole_batches


@pytest.mark.parametrize(("name", "asked", "n"), [(name, *asked) for name, asked in FEATURES.items()])
def test_the_cards_of_the_feature_networks(name: str, asked: float, n: int) -> None:
    found = card(name)["accuracy"]
    assert found["n"] == n
    assert found["hits"] / found["n"] >= asked


def test_the_feature_network() -> None:
    sample = fashion_sample()
    images = torch.from_numpy(sample.images[:, None] / 127.5 - 1).float()
    images = torch.nn.functional.pad(images, (2, 2, 2, 2), value=-1.0)
    features, predicted = predict(bigain.load("fashion-features"), images)
    assert features.shape == (500, 128)
    assert (predicted.numpy() == sample.labels).mean() > 0.88


@pytest.mark.parametrize("name", MODELS)
def test_loading_never_touches_the_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("asked the network"))
    denoiser = bigain.load(name)
    assert denoiser.classes == CLASSES[name.partition("-")[0]]
    assert 10 <= len(denoiser.profile.timesteps) <= 16
    assert denoiser.profile.images == 400
    assert not any(p.requires_grad for p in denoiser.network.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", FASHION)
def test_they_classify(name: str) -> None:
    """10 images with few trials: far above chance, though not what the card says."""
    sample = fashion_sample()
    decisions = DiffusionClassifier(bigain.load(name), range(10), "exhaustive(5)")(sample.images[:10])
    assert sum(d.index == k for d, k in zip(decisions, sample.labels, strict=False)) >= 6


@pytest.mark.slow
def test_the_colour_model_classifies_its_own_images() -> None:
    """No real ones come with it; one a class, with few trials."""
    denoiser = bigain.load("cifar-unet")
    images = generate(denoiser, list(range(10)), Sampling(num_inference_steps=10))
    decisions = DiffusionClassifier(denoiser, denoiser.classes, "exhaustive(5)")(list(images))
    assert sum(d.index == k for k, d in enumerate(decisions)) >= 7


@pytest.mark.parametrize("name", FASHION)
def test_what_is_computed_once_changes_nothing(name: str) -> None:
    denoiser, images = bigain.load(name), fashion_sample().images[:2]
    expected = DiffusionClassifier(denoiser, range(10), "exhaustive(2)", remember_prompts=False, batch_size=10)(images)
    for batch_size in (3, 64):
        found = DiffusionClassifier(denoiser, range(10), "exhaustive(2)", batch_size=batch_size)(images[::-1])[::-1]
        for a, b in zip(found, expected, strict=True):
            assert a.label == b.label
            np.testing.assert_allclose(a.errors, b.errors, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_they_generate(name: str) -> None:
    images = generate(bigain.load(name), list(range(10)), Sampling(num_inference_steps=10))
    _, predicted = predict(load_features(folder_of(f"{name.partition('-')[0]}-features")), images)
    assert (predicted == torch.arange(10)).sum() >= (7 if name in FASHION else 4)


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(folder_of("fashion-unet"), folder)
    weights = next((folder / "model").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ValueError, match="not a complete bigain model"):
        bigain.load(folder)


def test_a_network_of_features_does_not_classify() -> None:
    with pytest.raises(ValueError, match=r"cifar-features is a feature network.* Available: cifar-unet, fashion-dit"):
        load_denoiser("cifar-features")

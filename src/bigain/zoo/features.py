"""Small image classifiers whose features serve the Fréchet distance ("FD-fashion"); not diffusion models."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from bigain.data.cifar10 import CLASSES as CIFAR
from bigain.data.fashion_mnist import CLASSES as FASHION
from bigain.data.quickdraw import CLASSES as QUICKDRAW
from bigain.zoo.augment import augmented
from bigain.zoo.recipes import FeatureRecipe

# what the outputs of a network of this name mean
CLASSES = {"fashion": FASHION, "cifar": CIFAR, "quickdraw": QUICKDRAW}


class FeatureNet(nn.Module):
    """Convolutions and a layer of 128 features, and one linear layer to classes, for 32 x 32 images in [-1, 1]."""

    def __init__(self, name: str = "fashion", channels: int = 1, classes: int = 10, width: int = 32) -> None:
        super().__init__()
        self.name = name  # of the distances in these features
        self.options = {"name": name, "channels": channels, "classes": classes, "width": width}
        sides = (channels, width, 2 * width, 4 * width)
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(sides):
            layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width * 16, 128), nn.BatchNorm1d(128))
        self.head = nn.Linear(128, classes)

    def features(self, images: Tensor) -> Tensor:
        """(B, c, 32, 32) -> (B, 128)."""
        return self.body(images)

    def forward(self, images: Tensor) -> Tensor:
        """(B, c, 32, 32) -> (B, classes)."""
        return self.classify(self.features(images))

    def classify(self, features: Tensor) -> Tensor:
        """(B, 128) -> (B, classes)."""
        return self.head(F.dropout(F.relu(features), 0.3, self.training))


def train_features(
    recipe: FeatureRecipe, images: Tensor, labels: Tensor, *, batch: int = 128, seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> FeatureNet:  # fmt: skip
    """Plain supervised training with a one-cycle rate and random views: (N, c, 32, 32), (N,) -> network."""
    torch.manual_seed(seed)
    network = FeatureNet(recipe.short, images.shape[1], len(CLASSES[recipe.short]), recipe.width).train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.02)
    steps = recipe.epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=3e-3, total_steps=steps)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(recipe.epochs):
        for rows in torch.randperm(len(images), generator=generator).split(batch)[: len(images) // batch]:
            loss = F.cross_entropy(network(viewed(images[rows], recipe, generator)), labels[rows], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            if progress is not None:
                progress(len(rows), loss.item())
    return network.eval()


def viewed(images: Tensor, recipe: FeatureRecipe, generator: torch.Generator) -> Tensor:
    """A batch in a view of its own, or each image in one: (B, c, 32, 32) -> same."""
    if recipe.augmentation is not None:
        return augmented(images, recipe.augmentation, generator)
    dy, dx = (int(n) for n in torch.randint(-2, 3, (2,), generator=generator))
    seen = torch.roll(images, (dy, dx), (2, 3))
    if recipe.mirror and torch.rand((), generator=generator) < 0.5:
        seen = seen.flip(3)
    return seen


@torch.no_grad()
def predict(network: FeatureNet, images: Tensor) -> tuple[Tensor, Tensor]:
    """Features and predicted classes: (B, c, 32, 32) -> (B, 128), (B,)."""
    parts = [network.features(part) for part in images.split(256)]
    features = torch.cat(parts)
    return features, network.classify(features).argmax(1)


def save_features(folder: Path, network: FeatureNet) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {key: value.half() if value.is_floating_point() else value for key, value in network.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(network.options) + "\n")


def load_features(folder: Path) -> FeatureNet:
    try:
        network = FeatureNet(**json.loads((folder / "config.json").read_text()))
        weights = load_file(folder / "model.safetensors")
        kinds = {key: value.dtype for key, value in network.state_dict().items()}
        network.load_state_dict({key: value.to(kinds.get(key, value.dtype)) for key, value in weights.items()})
    except (KeyError, TypeError, ValueError, OSError, RuntimeError) as error:
        raise ValueError(f"{folder} is not a complete feature network ({error}); train it again") from error
    return network.eval().requires_grad_(False)

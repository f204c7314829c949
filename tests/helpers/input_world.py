"""Tiny real things that the cases of bad input are tried on."""

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from diffusers import DiTPipeline

import bigain
from bigain import DiffusionClassifier
from bigain.classify.images import to_tensor
from bigain.data import load_data
from bigain.data.dataset import Dataset
from bigain.denoisers.base import Denoiser, ImageSpec
from helpers.models import BACKBONES
from helpers.pipelines import dit
from helpers.toys import PointDenoiser, points

IMAGE_SPEC = ImageSpec(16, 3)


class World:
    """Made when a case asks for them."""

    @cached_property
    def unet(self) -> Any:
        return BACKBONES["sd"].build()

    @cached_property
    def toy(self) -> Denoiser:
        return PointDenoiser(points(4))

    @cached_property
    def bundled(self) -> Denoiser:
        return bigain.load("fashion-unet")

    @cached_property
    def pipeline(self) -> DiTPipeline:
        pipe = dit(Path())
        pipe.labels = {"tench": 0, "Tinca tinca": 0, "goldfish": 1}
        return pipe

    @cached_property
    def data(self) -> Dataset:
        return load_data("fashion-sample").subset(20)

    def compress(self, operator: Any, **options: Any) -> None:
        bigain.compress(self.unet, operator, **options).remove()

    def classifier(self, classes: Any = range(4), policy: Any = None, **options: Any) -> DiffusionClassifier:
        return DiffusionClassifier(self.toy, classes, policy, **options)


def pixels(image: Any) -> torch.Tensor:
    return to_tensor(image, IMAGE_SPEC)

"""Tiny models as architectures by name, for what takes names alone."""

from typing import Any

import pytest

from bigain.models.architectures import build_random
from bigain.models.named import ARCHITECTURES, Architecture
from helpers.models import BACKBONES

JOINT = ("sd3", "flux", "chroma", "flux2", "qwen", "aura", "hunyuan")


def tiny(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """A tiny model of a real class, which from now on is the architecture "tiny"."""
    backbone = BACKBONES[name]
    known = Architecture(backbone.model.__name__, dict(backbone.config), text_tokens=7, side=16)
    monkeypatch.setitem(ARCHITECTURES, "tiny", known)
    return build_random("tiny")

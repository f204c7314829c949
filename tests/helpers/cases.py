"""A fault: what is typed, what must be said, and the exit code."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from helpers.commands import picture_folders, save_small_model


class Case(NamedTuple):
    """`words` are split at spaces, after which {names} stand for the files of `make_files`."""

    words: str
    text: str
    code: int = 2


def make_files(root: Path) -> dict[str, str]:
    """Good and bad files by the names that cases use."""
    images = picture_folders(root / "images", 1)
    image = next(images.rglob("*.png"))
    for name in ("empty", "pipes", "closed", "text", "odd", "broken_model", "unsupported_model"):
        (root / name).mkdir()
    os.mkfifo(root / "pipes" / "a.png")
    (root / "loop.png").symlink_to("loop.png")
    (root / "dead.png").symlink_to("nowhere.png")
    (root / "text" / "a.png").write_text("no picture")
    (root / "cut.png").write_bytes(image.read_bytes()[:60])
    (root / "odd" / "a\x1b[31m\u202eb.png").write_text("no picture")
    Image.new("F", (8, 8)).save(root / "float.tif")
    (root / "latin.txt").write_bytes("café\ncoat\n".encode("latin-1"))
    (root / "wide.txt").write_text("bag\ncoat\n", encoding="utf-16")
    (root / "blank.txt").write_text("\n \n")
    (root / "twice.txt").write_text("bag\nbag\n")
    (root / "notes.csv").write_text("my own notes\n")
    (root / "folder.csv").mkdir()
    (root / "raises.py").write_text("1 / 0")
    (root / "broken_model" / "bigain.json").write_text("{")
    (root / "unsupported_model" / "model_index.json").write_text(json.dumps({"_class_name": "SanaPipeline"}))
    (root / "bad.toml").write_text("title = ")
    found = {path.name.replace(".", "_"): str(path) for path in root.iterdir()}
    return found | {"image": str(image), "model": str(save_small_model(root / "model")), "root": str(root)}

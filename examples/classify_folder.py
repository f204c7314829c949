"""Classify all PNG files below a folder with a compressed model, and say how sure each label is."""
# ruff: noqa: T201

import argparse
from pathlib import Path

from PIL import Image

import bigain
from bigain.data import load_data

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", nargs="?", type=Path, help="by default four bundled images, written to photos/")
parser.add_argument("--model", default="fashion-unet", help="a bundled model, a pipeline's folder or a Hub model ID")
parser.add_argument("--classes", nargs="+", help="labels; the model's own by default")
parser.add_argument("--operator", default="gated_merge(ratio=0.5)")
options = parser.parse_args()

if options.folder is None:
    options.folder, sample = Path("photos"), load_data("fashion-sample").subset(4)
    for example in sample.examples:
        place = options.folder / sample.classes[example.labels[0]].replace("/", "_") / f"{example.name}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(example.image).save(place)
paths, denoiser = sorted(options.folder.rglob("*.png")), bigain.load(options.model)
classifier = bigain.DiffusionClassifier(denoiser, options.classes or denoiser.classes, "race(confidence=0.5)")
with bigain.compress(denoiser, options.operator, groups="input"):
    for path, decision in zip(paths, classifier(paths), strict=True):
        print(f"{path}: {decision.label} (margin {decision.margin:.5f} ± {decision.margin_error:.5f})")

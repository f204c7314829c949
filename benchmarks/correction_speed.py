"""Seconds of a decision with group correction beside the uncompressed model, and what the FLOPs promise.

`DiffusionClassifier` with the paper's stages decides the same images under each setting, in interleaved rounds on two
threads. The images are bundled ones of Fashion-MNIST, and for cifar-unet generated ones, cut from the sheet that comes
with the model: only times count here. `python benchmarks/correction_speed.py` writes
`benchmarks/results/correction-speed.json`.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

import bigain
from bigain.bench.flops import count_flops, group_flops
from bigain.bench.ratios import compared
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.cli.main import keep_memory
from bigain.compression import Compression
from bigain.data.fashion_mnist import fashion_sample
from bigain.data.quickdraw import quickdraw_sample
from bigain.denoisers.base import Denoiser
from bigain.experiments.machine import environment
from bigain.models.architectures import meta_copy
from bigain.zoo.catalog import folder_of

RESULT = Path(__file__).parent / "results" / "correction-speed.json"
BLOCKS = "index=(0, 1, 2, 3, 4, 5), module=('self', 'mlp')"
LEVELS = "downsample=(1, 2), module=('self', 'mlp')"
SHEET = 10  # images in a row of the sheet
MODELS = {  # ratio and sites
    "fashion-dit": ((0.7, None), (0.5, BLOCKS), (0.6, BLOCKS)),
    "fashion-unet": ((0.7, None), (0.5, LEVELS)),
    "cifar-unet": ((0.7, None), (0.5, LEVELS)),
}


def settings(model: str) -> Iterator[Compression]:
    """Each ratio and place, with a shared plan and corrected."""
    for ratio, where in MODELS[model]:
        for correct in (False, True):
            yield Compression(f"gated_merge(ratio={ratio}, weighted=True)", where, groups="input", correct=correct)


def pictures(model: str, count: int) -> list[Any]:
    """Images of the size of a model."""
    if model.startswith("fashion"):
        return list(fashion_sample().images[:count])
    if model.startswith("quickdraw"):
        return list(quickdraw_sample().images[:count])
    sheet = np.asarray(Image.open(folder_of(model) / "samples.png").convert("RGB"))
    side = sheet.shape[1] // SHEET
    tiles = [tile for row in np.split(sheet, sheet.shape[0] // side) for tile in np.split(row, SHEET, 1)]
    return tiles[:count]


def survivors(decisions: list[Decision]) -> Counter[int]:
    """How many trials ran with how many classes."""
    return Counter(int(n) for d in decisions for n in (~np.isnan(d.errors)).sum(0))


def flops_ratio(denoiser: Denoiser, compression: Compression, trials: Counter[int]) -> float:
    """FLOPs of trials against those of the same trials uncompressed."""
    network, text_tokens = meta_copy(denoiser.network), denoiser.text_tokens
    dense = count_flops(network, text_tokens=text_tokens)
    own = sum(n * group_flops(network, [compression], rows, text_tokens=text_tokens) for rows, n in trials.items())
    return own / sum(n * rows * dense for rows, n in trials.items())


def decide(denoiser: Denoiser, images: list[Any], compression: Compression | None) -> tuple[float, list[Decision]]:
    """Seconds and decisions of all images."""
    classifier = DiffusionClassifier(denoiser, denoiser.classes, "stages")
    attached = nullcontext() if compression is None else bigain.compress(denoiser, compression)
    with attached:
        started = time.perf_counter()
        decisions = classifier(images)
        return time.perf_counter() - started, decisions


def measure(model: str, count: int, rounds: int) -> tuple[list[dict[str, Any]], Denoiser]:
    denoiser, images = bigain.load(model), pictures(model, count)
    ways: list[Compression | None] = [None, *settings(model)]
    seconds: list[list[float]] = [[] for _ in ways]
    decisions: list[list[Decision]] = [[] for _ in ways]
    for way in ways:
        decide(denoiser, images[:1], way)  # warm up
    for number in range(rounds):
        for place in range(len(ways)):
            at = (place + number) % len(ways)  # each comes after another one in each round
            taken, decisions[at] = decide(denoiser, images, ways[at])
            seconds[at].append(taken)
    rows = []
    for way, own, made in zip(ways, seconds, decisions, strict=True):
        if way is None:
            continue
        ratio, flops = compared(own, seconds[0]), flops_ratio(denoiser, way, survivors(made))
        rows.append({
            "model": model, "images": len(images), "compression": way.as_dict(), "correct": way.correct,
            "seconds": statistics.median(own), "flops_ratio": flops, "time_ratio": ratio.as_json(),
            "realised": (1 - ratio.value) / (1 - flops),
        })  # fmt: skip
    return rows, denoiser


def main(count: int, rounds: int, threads: int, models: list[str], result: Path) -> None:
    keep_memory()  # as the commands do
    torch.set_num_threads(threads)
    rows: list[dict[str, Any]] = []
    for model in models:
        found, denoiser = measure(model, count, rounds)
        rows += found
    record = {"rounds": rounds, "rows": rows, "facts": environment(denoiser)}
    result.write_text(json.dumps(record, indent=1) + "\n")
    table = Table("model", "setting", "corrected", "FLOPs", "time", "of the saving")
    for row in rows:
        setting = ", ".join(filter(None, (row["compression"]["operator"], row["compression"]["where"])))
        cells = (row["flops_ratio"], row["time_ratio"]["value"], row["realised"])
        table.add_row(row["model"], setting, str(row["correct"]), *(f"{cell:.2f}" for cell in cells))
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--result", type=Path, default=RESULT)
    given = parser.parse_args()
    main(given.images, given.rounds, given.threads, given.models, given.result)

"""Images a second of the classifier beside a plain loop, same decisions, in one run.

The plain loop is written as the published diffusion classifier does it: one image at a time, batches of 16 over
(class, t) pairs, prompts projected in every pass, nothing shared. `python benchmarks/classify_speed.py` writes
`benchmarks/results/classify-speed.json`.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from correction_speed import pictures
from policies import EVERYWHERE
from rich.console import Console
from rich.table import Table

import bigain
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.images import to_tensor
from bigain.classify.policies import paper_stages
from bigain.classify.trials import Trial, draw_noise, fingerprint, staged_timesteps
from bigain.cli.main import keep_memory
from bigain.compression import Compression
from bigain.denoisers.base import Condition, Denoiser, ImageSpec
from bigain.denoisers.schedule import Schedule
from bigain.experiments.machine import environment
from bigain.registry import miss
from bigain.zoo.catalog import bundled

ROUNDS = 3
SHAPED = "SD-shaped U-Net, random weights"
MODELS = {"fashion-unet": 8, "fashion-dit": 8, "cifar-unet": 8, SHAPED: 1, "quickdraw-dit": 2}  # images
RECORD = Path(__file__).parent / "results" / "classify-speed.json"
MERGE = "gated_merge(ratio=0.7, weighted=True)"
STRONG = "gated_merge(ratio=0.5, weighted=True)"


class Shaped(Denoiser):
    """A U-Net of the shape of Stable Diffusion's with random weights, and random text of 77 tokens for each class."""

    by_text = True

    def __init__(self) -> None:
        from diffusers import UNet2DConditionModel

        torch.manual_seed(0)
        network = UNet2DConditionModel(
            sample_size=16, block_out_channels=(64, 128, 256, 256), layers_per_block=2, attention_head_dim=(2, 4, 8, 8),
            cross_attention_dim=256, use_linear_projection=True, norm_num_groups=32,
        ).eval()  # fmt: skip
        super().__init__(network, Schedule("scaled_linear", 0.00085, 0.012), ImageSpec(28, 1, 2))
        self.text = torch.randn(11, 77, 256)

    latent_shape = (4, 16, 16)

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pixel_unshuffle(images, 2)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pixel_shuffle(latents, 2)

    def conditions(self, classes: object) -> Condition:
        return Condition({"encoder_hidden_states": self.text[[int(k) for k in classes]]})

    def unconditional(self, rows: int) -> Condition:
        return Condition({"encoder_hidden_states": self.text[[10] * rows]})

    def output(self, noisy: torch.Tensor, t: torch.Tensor, condition: Condition) -> torch.Tensor:
        return self.network(noisy, t, **condition.values).sample


@torch.no_grad()
def plain_loop(denoiser: Denoiser, images: list[np.ndarray], classes: int) -> list[int]:
    """One image, batches of 16, the paper's stages."""
    labels, stages = [], paper_stages(classes)
    conditions = denoiser.conditions(range(classes))
    for picture in images:
        pixels = to_tensor(picture, denoiser.image_spec)
        latents, key = denoiser.encode(pixels[None]), fingerprint(pixels)
        errors: dict[int, list[float]] = {k: [] for k in range(classes)}
        alive = list(range(classes))
        for steps, keep in zip(staged_timesteps(1000, stages.trials), stages.keep, strict=True):
            pairs = [(k, t) for k in alive for t in steps]
            for start in range(0, len(pairs), 16):
                batch = pairs[start : start + 16]
                t = torch.tensor([step for _, step in batch])
                noise = torch.stack([draw_noise(0, key, Trial(step, 0), latents.shape[1:]) for _, step in batch])
                chosen = conditions.take(torch.tensor([k for k, _ in batch]))
                found = denoiser.error(latents.expand(len(batch), -1, -1, -1), chosen, t, noise)
                for (k, _), error in zip(batch, found.tolist(), strict=True):
                    errors[k].append(error)
            alive = sorted(sorted(alive, key=lambda k: np.mean(errors[k]))[:keep])
        labels.append(alive[0])
    return labels


def evaluations(classes: int) -> int:
    """Of a decision with the paper's stages."""
    stages = paper_stages(classes)
    counts = np.diff((0, *stages.trials))
    return int(counts @ np.array((classes, *stages.keep[:-1])))


@torch.no_grad()
def network_alone(denoiser: Denoiser, images: int, classes: int) -> None:
    """As many evaluations in batches of 50, without noise, errors and decisions: no classifier can be faster."""
    noisy, t = torch.randn(50, *denoiser.latent_shape), torch.randint(0, 1000, (50,))
    condition = denoiser.conditions(range(classes)).take(torch.arange(50) % classes)
    left = images * evaluations(classes)
    while left > 0:
        rows = min(left, 50)
        denoiser.output(noisy[:rows], t[:rows], condition.take(torch.arange(rows)))
        left -= rows


class Decide(NamedTuple):
    """Decisions of the classifier among so many classes."""

    denoiser: Denoiser
    images: list[np.ndarray]
    classes: int

    def __call__(self, policy: str = "paper", setting: Compression | None = None, **options: bool) -> list[int]:
        with nullcontext() if setting is None else bigain.compress(self.denoiser.network, setting):
            classifier = DiffusionClassifier(self.denoiser, range(self.classes), policy, **options)
            return [decision.index for decision in classifier(self.images)]


def ways_of(name: str, denoiser: Denoiser, sample: list[np.ndarray], classes: int) -> dict[str, Callable[[], Any]]:
    decide, corrected = Decide(denoiser, sample, classes), Compression(MERGE, groups="input", correct=True)
    ways = {
        "plain loop": partial(plain_loop, denoiser, sample, classes),
        "classifier": decide,
        "without remembered prompts": partial(decide, remember_prompts=False),
        "the network alone": partial(network_alone, denoiser, len(sample), classes),
        "balanced": partial(decide, "balanced"),
        "fast": partial(decide, "fast"),
        f"paper, {MERGE}, corrected": partial(decide, "paper", corrected),
        f"fast, {MERGE}, corrected": partial(decide, "fast", corrected),
    }
    if name in EVERYWHERE:
        strong = Compression(STRONG, EVERYWHERE[name], None, "input", True)
        ways[f"fast, {STRONG}, all sites + MLP, corrected"] = partial(decide, "fast", strong)
    if not denoiser.by_text:
        del ways["without remembered prompts"]  # there are none
    return ways


def main(names: list[str]) -> None:
    keep_memory()  # as the commands do
    torch.set_num_threads(2)
    if unknown := set(names) - set(MODELS):
        raise SystemExit(miss("model", unknown.pop(), MODELS))
    rows = [row for row in json.loads(RECORD.read_text())["rows"] if row["model"] not in names] if names else []
    for name, count in MODELS.items():
        if (names and name not in names) or (name != SHAPED and name not in bundled()):
            continue
        denoiser = Shaped() if name == SHAPED else bigain.load(name)
        sample = pictures("fashion-unet" if name == SHAPED else name, count)
        classes = 10 if name == SHAPED else len(denoiser.classes)
        ways = ways_of(name, denoiser, sample, classes)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        labels = {}
        for _ in range(ROUNDS):
            for way, run in ways.items():  # interleaved, so that a busy machine hurts all alike
                started = time.perf_counter()
                labels[way] = run()
                seconds[way].append(time.perf_counter() - started)
        same = [labels[way] for way in ("plain loop", "classifier", "without remembered prompts") if way in ways]
        assert all(found == same[0] for found in same), labels
        for way in ways:
            ratios = [a / b for a, b in zip(seconds["plain loop"], seconds[way], strict=True)]
            rows.append({"model": name, "images": count, "way": way, "times_plain_loop": statistics.median(ratios),
                         "images_per_second": count / statistics.median(seconds[way])})  # fmt: skip
    rows.sort(key=lambda row: list(MODELS).index(row["model"]))
    record = {"rounds": ROUNDS, "rows": rows, "facts": environment(denoiser)}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    table = Table(title=f"the paper's stages, median of {ROUNDS} rounds")
    for head in ("model", "way", "images/s", "times the plain loop"):
        table.add_column(head)
    for row in rows:
        table.add_row(row["model"], row["way"], f"{row['images_per_second']:.2f}", f"{row['times_plain_loop']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", help="measure only these; rows of others stay")
    main(list(parser.parse_args().model))

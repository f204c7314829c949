"""Images a second of the classifier beside a plain loop, same decisions, in one run.

The plain loop is written as the published diffusion classifier does it: one image at a time, batches of 16 over
(class, t) pairs, prompts projected in every pass, nothing shared. `python benchmarks/classify_speed.py` writes
`benchmarks/results/classify-speed.json`.
"""

import argparse
import json
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from correction_speed import pictures
from policies import EVERYWHERE
from rich.console import Console
from rich.table import Table

import bigain
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.images import to_tensor
from bigain.classify.trials import Trial, draw_noise, fingerprint, staged_timesteps
from bigain.cli.main import keep_memory
from bigain.compression import Compression
from bigain.denoisers.base import Condition, Denoiser, ImageSpec
from bigain.denoisers.schedule import Schedule
from bigain.experiments.machine import environment

ROUNDS = 3
MODELS = {"fashion-unet": 8, "fashion-dit": 8, "cifar-unet": 8, "SD-shaped U-Net, random weights": 1}  # images
EVALUATIONS = 10 * 5 + 5 * 15  # of a decision
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
    """One image, batches of 16, stages [5, 20] keep [5, 1]."""
    labels = []
    conditions = denoiser.conditions(range(classes))
    for picture in images:
        pixels = to_tensor(picture, denoiser.image_spec)
        latents, key = denoiser.encode(pixels[None]), fingerprint(pixels)
        errors: dict[int, list[float]] = {k: [] for k in range(classes)}
        alive = list(range(classes))
        for steps, keep in zip(staged_timesteps(1000, (5, 20)), (5, 1), strict=True):
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


@torch.no_grad()
def network_alone(denoiser: Denoiser, images: int) -> None:
    """As many evaluations in batches of 50, without noise, errors and decisions: no classifier can be faster."""
    noisy, t = torch.randn(50, *denoiser.latent_shape), torch.randint(0, 1000, (50,))
    condition = denoiser.conditions(range(10)).take(torch.arange(50) % 10)
    left = images * EVALUATIONS
    while left > 0:
        rows = min(left, 50)
        denoiser.output(noisy[:rows], t[:rows], condition.take(torch.arange(rows)))
        left -= rows


def compressed(denoiser: Denoiser, images: list[np.ndarray], policy: str, setting: Compression) -> list[int]:
    with bigain.compress(denoiser.network, setting):
        return decided(denoiser, images, policy)


def decided(denoiser: Denoiser, images: list[np.ndarray], policy: str = "paper", **options: bool) -> list[int]:
    return [decision.index for decision in DiffusionClassifier(denoiser, range(10), policy, **options)(images)]


def main() -> None:
    keep_memory()  # as the commands do
    torch.set_num_threads(2)
    rows = []
    for name, count in MODELS.items():
        denoiser = bigain.load(name) if name in EVERYWHERE else Shaped()
        sample = pictures(name if name in EVERYWHERE else "fashion-unet", count)
        corrected = Compression(MERGE, groups="input", correct=True)
        ways = {
            "plain loop": partial(plain_loop, denoiser, sample, 10),
            "classifier": partial(decided, denoiser, sample),
            "without remembered prompts": partial(decided, denoiser, sample, remember_prompts=False),
            "the network alone": partial(network_alone, denoiser, count),
            "balanced": partial(decided, denoiser, sample, "balanced"),
            "fast": partial(decided, denoiser, sample, "fast"),
            f"paper, {MERGE}, corrected": partial(compressed, denoiser, sample, "paper", corrected),
            f"fast, {MERGE}, corrected": partial(compressed, denoiser, sample, "fast", corrected),
        }  # fmt: skip
        if name in EVERYWHERE:
            strong = Compression(STRONG, EVERYWHERE[name], None, "input", True)
            ways[f"fast, {STRONG}, all sites + MLP, corrected"] = partial(compressed, denoiser, sample, "fast", strong)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        labels = {}
        for _ in range(ROUNDS):
            for way, run in ways.items():  # interleaved, so that a busy machine hurts all alike
                started = time.perf_counter()
                labels[way] = run()
                seconds[way].append(time.perf_counter() - started)
        assert labels["plain loop"] == labels["classifier"] == labels["without remembered prompts"], labels
        for way in ways:
            ratios = [a / b for a, b in zip(seconds["plain loop"], seconds[way], strict=True)]
            rows.append({"model": name, "images": count, "way": way, "times_plain_loop": statistics.median(ratios),
                         "images_per_second": count / statistics.median(seconds[way])})  # fmt: skip
    record = {"rounds": ROUNDS, "rows": rows, "facts": environment(denoiser)}
    (Path(__file__).parent / "results" / "classify-speed.json").write_text(json.dumps(record, indent=1) + "\n")
    table = Table(title=f"paper: stages [5, 20] keep [5, 1], median of {ROUNDS} rounds")
    for head in ("model", "way", "images/s", "times the plain loop"):
        table.add_column(head)
    for row in rows:
        table.add_row(row["model"], row["way"], f"{row['images_per_second']:.2f}", f"{row['times_plain_loop']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()

"""What the classifier itself costs an evaluation, with a network that costs nothing, for 10 to 1,000 classes.

`python benchmarks/classify_overhead.py` writes `benchmarks/results/classify-overhead.json`: microseconds an evaluation
and the peak of Python's memory, for the paper's protocol and `fast`.
"""

import json
import statistics
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from bigain.classify.classifier import DiffusionClassifier
from bigain.denoisers.base import Condition, Denoiser, ImageSpec, Loss
from bigain.denoisers.schedule import Schedule
from bigain.experiments.machine import environment
from bigain.profile import TimestepProfile

IMAGES, ROUNDS = 8, 5
CLASSES = (10, 100, 345, 1000)
PROFILE = TimestepProfile(tuple(range(25, 825, 50)), (1.0,) * 16, (0.5,) * 16, scale=1.0)


class Free(Denoiser):
    """Errors that grow with the number of the class, from no network."""

    latent_shape = (4, 16, 16)

    def __init__(self) -> None:
        super().__init__(nn.Linear(1, 1), Schedule(), ImageSpec(32, 1))

    def encode(self, images: Tensor) -> Tensor:
        return images.expand(-1, 4, -1, -1)[..., ::2, ::2]

    def decode(self, latents: Tensor) -> Tensor:
        return latents

    def conditions(self, classes: Sequence[str | int]) -> Condition:
        return Condition({"number": torch.tensor([float(k) for k in classes])})

    def unconditional(self, rows: int) -> Condition:
        return Condition({"number": torch.zeros(rows)})

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return noisy

    def error(self, latents: Tensor, condition: Condition, t: Tensor, noise: Tensor, loss: Loss = "l2") -> Tensor:
        return condition.values["number"] / 50 + noise[:, 0, 0, 0]


def main() -> None:
    torch.set_num_threads(1)
    images = torch.rand(IMAGES, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    rows = []
    for classes in CLASSES:
        for policy, timesteps in (("paper", "even"), ("fast", PROFILE)):
            classifier = DiffusionClassifier(Free(), range(classes), policy, timesteps=timesteps)
            spent = sum(decision.evaluations for decision in classifier(images))
            seconds = []
            for _ in range(ROUNDS):
                started = time.perf_counter()
                classifier(images)
                seconds.append(time.perf_counter() - started)
            tracemalloc.start()
            classifier(images)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            rows.append({"classes": classes, "policy": policy, "evaluations": spent / IMAGES,
                         "microseconds": 1e6 * statistics.median(seconds) / spent, "peak_kb": peak / 1024})  # fmt: skip
    record = {"images": IMAGES, "rounds": ROUNDS, "rows": rows, "facts": environment(Free())}
    (Path(__file__).parent / "results" / "classify-overhead.json").write_text(json.dumps(record, indent=1) + "\n")
    table = Table("classes", "policy", "evaluations", "µs an evaluation", "peak, KB")
    for row in rows:
        numbers = (row["evaluations"], row["microseconds"], row["peak_kb"])
        table.add_row(str(row["classes"]), row["policy"], *(f"{number:.1f}" for number in numbers))
    Console().print(table)


if __name__ == "__main__":
    main()

"""Writes the experiment files of Table 1: each method at the ratio and the sites that save 10, 25 or 40 % of the FLOPs.

`python benchmarks/table1.py`. Classification counts the FLOPs of a decision (ten classes, five and twenty trials),
generation those of an image. For each method the first of `SITES` is taken at which it reaches the target with a ratio
of at most 0.75, or a factor of at most 8, and there the smallest that does. A method that cannot has no row.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

import bigain
from bigain.bench.flops import RefusedError, Trial, count_flops, group_flops, policy_rounds, reused_flops
from bigain.caching import Every, FirstBlock
from bigain.compression import Compression
from bigain.loading import load_denoiser
from bigain.models.architectures import meta_copy

HERE = Path(__file__).parent / "experiments" / "bundled"
TARGETS = (0.10, 0.25, 0.40)
STEPS = 20  # of which 18, 15 and 12 are the three targets
POLICY = "stages(trials=(5, 20), keep=(5, 1))"
CLASSES = 10
UNET_SITES = (
    None,
    "downsample={levels}",
    "module=('self', 'mlp')",
    "downsample={levels}, module=('self', 'mlp')",
    "downsample={levels}, module=('self', 'cross', 'mlp')",
)
DIT_SITES = (None, "index=range(6)", "module=('self', 'mlp')", "index=range(6), module=('self', 'mlp')")
RATIOS = tuple(f"{number / 100:g}" for number in range(5, 76))
FACTORS = tuple(map(str, range(2, 9)))


@dataclass(frozen=True)
class Method:
    """A row before its ratio and sites are known."""

    name: str
    operator: str
    tasks: tuple[str, ...] = ("classify", "generate")
    values: tuple[str, ...] = RATIOS
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """A model with its data."""

    model: str
    stem: str
    data: str
    features: str
    alpha: float
    sites: tuple[str | None, ...]
    without: str | None = None
    levels: str = ""


SUBJECTS = (
    Subject("fashion-unet", "unet", "fashion-mnist(split='test')", "fashion-features", 0.9, UNET_SITES,
            "fashion-sample", "(1, 2)"),
    Subject("fashion-dit", "dit", "fashion-mnist(split='test')", "fashion-features", 0.1, DIT_SITES, "fashion-sample"),
    Subject("cifar-unet", "cifar", "cifar-10(split='test')", "cifar-features", 0.9, UNET_SITES, None, "(1, 2, 4)"),
)  # fmt: skip


def methods(alpha: float) -> list[Method]:
    """As published, each class with a plan of its own; then with one plan for all classes, corrected."""
    published = [
        Method("tome per_row", "tome(ratio={}, pattern='per_row')", ("classify",)),
        Method("tome per_call", "tome(ratio={}, pattern='per_call')"),
        Method("toma", "toma(ratio={})"),
        Method("sito", "sito(ratio={})"),
        Method("gated_merge", "gated_merge(ratio={}, match='exact')"),
        Method("block_merge", "block_merge(ratio={})"),
        Method("todo", "todo(factor={})", values=FACTORS),
        Method("kv_downsample", f"kv_downsample(factor={{}}, alpha={alpha})", values=FACTORS),
    ]
    corrected = {"groups": "input", "correct": True}
    return published + [
        Method(f"{one.name} corrected", one.operator, ("classify",), one.values, corrected)
        for one in published
        if one.name != "tome per_row"
    ]


class Costs:
    """FLOPs of a model's decisions and images."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.denoiser = load_denoiser(subject.model)
        self.network: nn.Module = meta_copy(self.denoiser.network)
        self.size: Any = {"latent": self.denoiser.latent_shape[1:], "text_tokens": self.denoiser.text_tokens}
        self.rounds: Counter[int] = policy_rounds(Trial(CLASSES, POLICY))
        self.dense = count_flops(self.network, **self.size)
        self.flops, self.share = cache(self._flops), cache(self._share)

    def _flops(self, compression: Compression, rows: int) -> int:
        return group_flops(self.network, [compression], rows, **self.size)

    def saved(self, compression: Compression) -> float:
        """Of a decision."""
        if compression.groups is None:  # each row by itself
            return 1 - self.flops(compression, 1) / self.dense
        cost = sum(count * self.flops(compression, alive) for alive, count in self.rounds.items())
        return 1 - cost / (self.dense * sum(count * alive for alive, count in self.rounds.items()))

    def smallest(self, method: Method, where: str | None, target: float) -> tuple[str, float] | None:
        """The first value that saves enough. More is saved with a higher one, so it is looked for by interpolation."""

        def saved(place: int) -> float:
            return self.saved(self.compression(method, method.values[place], where))

        low, high = -1, len(method.values) - 1
        below, above = 0.0, saved(high)
        if above < target:
            return None
        while high - low > 1:
            guess = low + (high - low) * (target - below) / (above - below)
            middle = min(max(round(guess), low + 1), high - 1)
            found = saved(middle)
            if found >= target:
                high, above = middle, found
            else:
                low, below = middle, found
        return method.values[high], above

    def compression(self, method: Method, value: str, where: str | None) -> Compression:
        return Compression(method.operator.format(value), where=where, **method.options)

    def row(self, method: Method, target: float) -> dict[str, Any] | None:
        for sites in self.subject.sites:
            where = None if sites is None else sites.format(levels=self.subject.levels)
            try:
                found = self.smallest(method, where, target)
            except (ValueError, RefusedError):
                continue  # keys of self-attention only
            if found is not None:
                value, saved = found
                say(f"{method.name}: {value} at {where}, {100 * saved:.1f} %")
                row = {"operator": method.operator.format(value)}
                return row | ({"where": where} if where else {}) | method.options | {"tasks": list(method.tasks)}
        say(f"{method.name}: cannot save {100 * target:g} %")
        return None

    def cached(self, method: Any, share: float) -> float:
        """What a cache saves of an image that reuses this share of its steps."""
        return share * (1 - reused_flops(self.network, method, **self.size) / self.dense)

    def every(self, target: float) -> dict[str, Any] | None:
        """The cache that saves least above the target; of equal ones that with the smaller k."""
        found = []
        for k, depth in product(range(2, 6), range(1, 6)):
            method = Every(k, depth)
            try:
                saved = self.cached(method, 1 - -(-STEPS // k) / STEPS)
            except ValueError:
                continue
            if saved >= target:
                found.append((round(saved, 3), k, depth))
        if not found:
            return None
        saved, k, depth = min(found)
        say(f"every(k={k}, depth={depth}): {100 * saved:.1f} %")
        return {"cache": f"every(k={k}, depth={depth})", "tasks": ["generate"]}

    def _share(self, method: FirstBlock) -> float:
        """Of the steps of the first images, those that reuse."""
        with bigain.cache(self.denoiser, method) as handle:
            bigain.generate(self.denoiser, self.denoiser.classes, bigain.Sampling(num_inference_steps=STEPS))
            return handle.reused / (handle.reused + handle.computed)

    def first_block(self, target: float) -> dict[str, Any] | None:
        """The smallest threshold on a grid that saves enough, on the first images."""
        try:
            FirstBlock().blocks(self.network)
        except ValueError:
            return None
        for number in range(1, 80):
            method = FirstBlock(number / 100)
            saved = self.cached(method, self.share(method))
            if saved >= target:
                say(f"first_block({method.threshold}): {100 * saved:.1f} %")
                return {"cache": f"first_block(threshold={method.threshold})", "tasks": ["generate"]}
        return None


def say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def fewer_trials(target: float) -> str:
    """The stages that cost least below the share that is left, in about the same proportion."""
    whole = 5 * 5 + 5 * 20  # ten classes for a trials and five for b - a
    possible = [(a, b) for a, b in product(range(2, 6), range(6, 21)) if 5 * a + 5 * b <= (1 - target) * whole + 1e-9]
    a, b = max(possible, key=lambda pair: (sum(pair), -abs(pair[1] - 4 * pair[0])))
    return f"stages(trials=({a}, {b}), keep=(5, 1))"


def rows(subject: Subject) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and content of each row."""
    yield "none", {"operator": "none"}
    counter = Costs(subject)
    for target in TARGETS:
        label = f"{100 * target:g} %"
        yield f"fewer trials, {label}", {"operator": "none", "policy": fewer_trials(target), "tasks": ["classify"]}
        steps = round(STEPS * (1 - target))
        yield f"fewer steps, {label}", {"operator": "none", "num_inference_steps": steps, "tasks": ["generate"]}
        for name, found in (("every", counter.every(target)), ("first_block", counter.first_block(target))):
            if found is not None:
                yield f"{name}, {label}", found
        for method in methods(subject.alpha):
            row = counter.row(method, target)
            if row is not None:
                yield f"{method.name}, {label}", row


PAPER = (
    ("none", {"accuracy": 81.03}),
    ("tome per_row, 10 %", {"accuracy": 72.96, "reduction": 10, "drop": 8.07}),
    ("dipgo, 10 %", {"accuracy": 76.53, "reduction": 10, "drop": 4.5}),
    ("sito, 10 %", {"accuracy": 68.84, "reduction": 7, "drop": 12.19}),
    ("mosaic, 10 %", {"accuracy": 77.38, "reduction": 10, "drop": 3.65}),
    ("gated_merge, 10 %", {"accuracy": 78.38, "reduction": 10, "drop": 2.65}),
    ("todo, 10 %", {"accuracy": 79.15, "reduction": 14.2, "drop": 1.88}),
    ("kv_downsample, 10 %", {"accuracy": 79.9, "reduction": 14.2, "drop": 1.13}),
)


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def written(subject: Subject) -> str:
    """The experiment file."""
    without = f'without = "{subject.without}"\n' if subject.without else ""
    parts = [f'''# Written by benchmarks/table1.py, which matches the FLOPs.
title = "Table 1 at matched FLOPs, {subject.model}"
about = """\\
  Which method keeps most of both capabilities when 10, 25 or 40 % of the FLOPs are saved: of a decision in \\
  classification, of an image in generation? As published, each class with a plan of its own; corrected, with one \\
  plan for all classes of a trial. A method that cannot save as much has no row. The paper's numbers are of SD 2.0 on \\
  Pets."""
model = "{subject.model}"
data = "{subject.data}"
{without}n = 500
seed = 0
policy = "{POLICY}"
timesteps = "even"
tasks = ["classify", "generate"]

[generate]
count = 500
num_inference_steps = {STEPS}
features = "{subject.features}"
''']  # fmt: skip
    tables = [("rows", name, row) for name, row in rows(subject)]
    tables += [("paper", name, numbers | {"source": "Table 1"}) for name, numbers in PAPER]
    for kind, name, content in tables:
        lines = [f"{key} = {toml(value)}" for key, value in ({"name": name} | content).items()]
        parts.append("\n".join([f"[[{kind}]]", *lines, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python benchmarks/table1.py", description=__doc__)
    parser.add_argument("stem", nargs="*", help="unet, dit, cifar; all by default")
    wanted = parser.parse_args().stem
    torch.manual_seed(0)
    for subject in SUBJECTS:
        if not wanted or subject.stem in wanted:
            (HERE / f"table1-{subject.stem}.toml").write_text(written(subject))

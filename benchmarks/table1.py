"""Writes the experiment files of Table 1: each method at the ratio and the sites that save 10, 25 or 40 % of the FLOPs.

`python benchmarks/table1.py`. Classification counts the FLOPs of a decision (ten classes, five and twenty trials),
generation those of an image. For each method the first of `SITES` is taken at which it reaches the target with a ratio
of at most 0.75, and there the smallest that does. Operators on keys have few factors: of all factors and sites the pair
that saves least above the target is taken. A method that cannot reach a target stays where it was and takes fewer
trials and sampler steps besides: `+ fewer`.
"""

import argparse
import math
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
from bigain.bench.flops import Trial, count_flops, group_flops, policy_rounds, reused_flops
from bigain.caching import Every, FirstBlock
from bigain.compression import Compression
from bigain.compression.status import plan_flops
from bigain.loading import load_denoiser
from bigain.models.architectures import meta_copy
from bigain.models.costs import site_flops, site_width
from bigain.operators import Call
from bigain.tokens.grid import Grid
from bigain.tokens.soft import SoftAssignment

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
ALL_BLOCKS = "index=(0, 1, 2, 3, 4, 5)"
DIT_SITES = (None, ALL_BLOCKS, "module=('self', 'mlp')", f"{ALL_BLOCKS}, module=('self', 'mlp')")
UNET_KEYS = ("part='down'", "part='up'", None, "downsample={levels}")  # for operators on keys, which have few factors
DIT_KEYS = ("index=0", "index=(0, 1)", None, "index=(0, 1, 2, 3)", "index=(0, 1, 2, 3, 4)", ALL_BLOCKS)
STAGES = tuple(product(range(2, 6), range(6, 21)))
RATIOS = tuple(f"{number / 100:g}" for number in range(5, 76))
FACTORS = tuple(map(str, range(2, 5)))


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
    keys: tuple[str | None, ...]
    without: str | None = None
    levels: str = ""


SUBJECTS = (
    Subject("fashion-unet", "unet", "fashion-mnist(split='test')", "fashion-features", 0.9, UNET_SITES,
            UNET_KEYS, "fashion-sample", "(1, 2)"),
    Subject("fashion-dit", "dit", "fashion-mnist(split='test')", "fashion-features", 0.1, DIT_SITES,
            DIT_KEYS, "fashion-sample"),
    Subject("cifar-unet", "cifar", "cifar-10(split='test')", "cifar-features", 0.9, UNET_SITES,
            UNET_KEYS, None, "(1, 2, 4)"),
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
        self.reached: dict[str, tuple[Compression, dict[str, Any]]] = {}
        self.at, self.share, self.reused = cache(self._at), cache(self._share), cache(self._reused)

    def _at(self, operator: Any, tokens: int, width: int, correct: bool) -> tuple[int, int, int, int]:
        """Queries, keys, and the FLOPs of a plan and of merging by it, for a square grid of tokens."""
        grid = Grid(math.isqrt(tokens), math.isqrt(tokens))
        x = torch.empty((1, tokens, width), device="meta")
        zero = torch.zeros(1, dtype=torch.int64, device="meta")
        plan = operator.plan(x, Call(grid, zero, zero))
        queries, context = plan.queries(x).shape[1], plan.context(x)
        mapping = plan.flops(width) if isinstance(plan, SoftAssignment) else 0
        keys = queries if context is None else context.shape[1]
        return queries, keys, plan_flops(operator, grid, 2 * width if correct else width), mapping

    def flops(self, compression: Compression, rows: int) -> int:
        """Of `rows` classes on one noisy input, by the costs of sites: much faster than a pass that is counted."""
        total, planned = rows * self.dense, set[str]()
        for site in bigain.sites(self.network, compression.where):
            text = self.size["text_tokens"] if site.kind == "cross" else 0
            queries, keys, plan, mapping = self.at(
                compression.operator, site.tokens, site_width(site), compression.correct
            )
            before = site_flops(site, site.tokens, text or site.tokens)
            after = site_flops(site, queries, text or keys) + mapping
            means = 1 if compression.correct else 0
            total += (rows + means) * after + (means - rows) * before
            if site.block not in planned:
                planned.add(site.block)
                total += plan if compression.groups else rows * plan
        return total

    def saved(self, compression: Compression, policy: str = POLICY) -> float:
        """Of a decision."""
        rounds = policy_rounds(Trial(CLASSES, policy))
        cost = sum(count * self.flops(compression, alive) for alive, count in rounds.items())
        return 1 - cost / (self.dense * sum(count * alive for alive, count in self.rounds.items()))

    def check(self, compression: Compression) -> None:
        """The costs of sites against a counted pass."""
        counted = group_flops(self.network, [compression], CLASSES, **self.size)
        assert counted == self.flops(compression, CLASSES), (compression, counted)

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

    def found(self, method: Method, target: float) -> Iterator[tuple[str, str | None, float]]:
        """Values, sites and what they save, the best first."""
        if method.values is FACTORS:
            places = product(method.values, self.places(self.subject.keys))
            every = [(self.saved(self.compression(method, *place)), place) for place in places]
            enough = sorted((one for one in every if one[0] >= target), key=lambda one: one[0])
            yield from ((*place, saved) for saved, place in enough)
            return
        for where in self.places(self.subject.sites):
            found = self.smallest(method, where, target)
            if found is not None:
                yield found[0], where, found[1]

    def places(self, sites: tuple[str | None, ...]) -> list[str | None]:
        return [None if one is None else one.format(levels=self.subject.levels) for one in sites]

    def row(self, method: Method, target: float) -> dict[str, Any] | None:
        for value, where, saved in self.found(method, target):
            say(f"{method.name}: {value} at {where}, {100 * saved:.1f} %")
            row = {"operator": method.operator.format(value)}
            row |= ({"where": where} if where else {}) | method.options | {"tasks": list(method.tasks)}
            self.reached[method.name] = self.compression(method, value, where), row
            return row
        say(f"{method.name}: cannot save {100 * target:g} %")
        return None

    def fewer(self, method: Method, target: float) -> dict[str, Any] | None:
        """What a method reached, with as many trials and sampler steps fewer as the target still needs."""
        if method.name not in self.reached:
            return None
        compression, row = self.reached[method.name]
        enough = ((a, b) for a, b in STAGES if self.saved(compression, staged(a, b)) >= target)
        a, b = max(enough, key=preferred)
        more: dict[str, Any] = {"policy": staged(a, b)}
        if "generate" in method.tasks:
            alone = self.flops(compression, 1) / self.dense
            more["num_inference_steps"] = int(STEPS * (1 - target) / alone)
        say(f"{method.name} + fewer: {more}, {100 * self.saved(compression, staged(a, b)):.1f} %")
        return row | more

    def cached(self, method: Any, share: float) -> float:
        """What a cache saves of an image that reuses this share of its steps."""
        depth = None if isinstance(method, FirstBlock) else method.depth
        return share * (1 - self.reused(depth) / self.dense)

    def _reused(self, depth: int | None) -> int:
        method: Any = FirstBlock() if depth is None else Every(2, depth)
        return reused_flops(self.network, method, **self.size)

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
    possible = [(a, b) for a, b in STAGES if 5 * a + 5 * b <= (1 - target) * whole + 1e-9]
    return staged(*max(possible, key=preferred))


def staged(a: int, b: int) -> str:
    return f"stages(trials=({a}, {b}), keep=(5, 1))"


def preferred(pair: tuple[int, int]) -> tuple[int, int]:
    """More trials are better, and four times as many in the end as in the first round, as in the paper."""
    return sum(pair), -abs(pair[1] - 4 * pair[0])


def rows(subject: Subject) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and content of each row."""
    yield "none", {"operator": "none"}
    counter = Costs(subject)
    for method in (methods(subject.alpha)[2], methods(subject.alpha)[-4]):  # a soft map, and a correction
        counter.check(counter.compression(method, "0.5", None))
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
                continue
            row = counter.fewer(method, target)
            if row is not None:
                yield f"{method.name} + fewer, {label}", row


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
  plan for all classes of a trial. A method that cannot save as much takes fewer trials and steps besides. The \\
  paper's numbers are of SD 2.0 on Pets."""
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

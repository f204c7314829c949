"""Accuracy against evaluations and FLOPs for every policy, on test images that nothing was chosen on.

All errors (every class on 20 evenly spaced timesteps, uncompressed) are computed once and kept; each policy then plays
on them, which gives exactly the decisions that it would make. Compressed decisions depend on the surviving classes, so
the presets run for real. `python benchmarks/policies.py fashion-unet` writes
`benchmarks/results/policies-fashion-unet.json` and `.npz`, and the figures to `docs/images`; what is in the `.npz` is
not computed anew.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import bigain
from bigain.bench.flops import group_flops
from bigain.classify.calibration import calibration_error
from bigain.classify.decision import distances, ranking
from bigain.classify.policies import Exhaustive, parse_policy
from bigain.classify.presets import PRESETS
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler
from bigain.compression import Compression
from bigain.data import load_data
from bigain.data.dataset import Example
from bigain.experiments.machine import environment
from bigain.metrics.intervals import wilson
from bigain.metrics.paired import share_difference
from bigain.models.architectures import meta_copy
from bigain.profile import TimestepProfile

RESULTS = Path(__file__).parent / "results"
SEED, SKIPPED, COUNT = 1, 500, 500  # the images after those that settings of compression were chosen on
STEPS = tuple(range(25, 1000, 50))
PAPER = "stages(trials=(5, 20), keep=(5, 1))"
DATA = {"cifar-unet": ("cifar-10(split='test')", None)}
FASHION = ("fashion-mnist(split='test')", "fashion-sample")
EVERYWHERE = {
    "fashion-dit": "index=(0, 1, 2, 3, 4, 5), module=('self', 'mlp')",
    "quickdraw-dit": "index=(0, 1, 2, 3, 4, 5), module=('self', 'mlp')",
    "fashion-unet": "downsample=(1, 2), module=('self', 'mlp')",
    "cifar-unet": "downsample=(1, 2), module=('self', 'mlp')",
}
EVEN, FITTED = "even", "fitted"
POLICIES = [
    *((f"exhaustive({n})", steps) for steps in (EVEN, FITTED) for n in (1, 2, 4, 5, 10, 20)),
    *((policy, steps) for steps in (EVEN, FITTED) for policy in (PAPER, "stages(trials=(2, 12), keep=(4, 1))")),
    *((f"race(confidence={c})", steps) for steps in (EVEN, FITTED) for c in (0.2, 0.5, 0.8, 0.95)),
    *((f"curtail(confidence={c})", FITTED) for c in (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98)),
]  # policy, timesteps


class Played(NamedTuple):
    """What a policy decided: the class of each image, and how many classes each of its trials tried."""

    winners: np.ndarray
    tried: list[list[int]]


def report_images(name: str) -> list[Example]:
    text, without = DATA.get(name, FASHION)
    data = load_data(text)
    if without:
        data = data.without(load_data(without).names)
    return list(data.subset(SKIPPED + COUNT, SEED).examples[SKIPPED:])


def compressions(name: str) -> dict[str, Compression]:
    """The compressed settings that presets run with."""
    merge = "gated_merge(ratio={}, weighted=True)"
    return {
        "ratio 0.7, default sites": Compression(merge.format(0.7), None, None, "input", True),
        "ratio 0.5, all sites + MLP": Compression(merge.format(0.5), EVERYWHERE[name], None, "input", True),
    }


def computed(name: str, path: Path) -> dict[str, np.ndarray]:
    """Every class on every trial, and the decisions of compressed presets: computed, or read where they were kept."""
    kept: dict[str, np.ndarray] = {}
    if path.is_file():
        with np.load(path) as found:
            kept = dict(found)
    examples, denoiser = report_images(name), bigain.load(name)
    images = [example.image for example in examples]
    kept["truth"] = np.array([example.labels[0] for example in examples])
    if "errors" not in kept:
        classifier = bigain.DiffusionClassifier(denoiser, range(10), Exhaustive(20), timesteps=STEPS)
        kept["errors"] = np.stack([d.errors for d in run(classifier, images, "every class")]).astype(np.float32)
        np.savez_compressed(path, **kept)
    for preset in ("balanced", "fast"):
        for label, compression in compressions(name).items():
            key = f"{preset}, {label}"
            if key in kept:
                continue
            with bigain.compress(denoiser, compression):
                decisions = run(bigain.DiffusionClassifier(denoiser, range(10), preset), images, key)
            kept[key] = np.array([d.index for d in decisions])
            longest = max(d.errors.shape[1] for d in decisions)
            counts = [(~np.isnan(d.errors)).sum(0) for d in decisions]
            kept[f"{key}, tried"] = np.array([np.pad(c, (0, longest - len(c))) for c in counts], dtype=np.uint8)
            np.savez_compressed(path, **kept)
    return kept


def run(classifier: bigain.DiffusionClassifier, images: Sequence[Any], what: str) -> list[Any]:
    found: list[Any] = [None] * len(images)
    for number, decision in track(classifier.stream(images), what, len(found), console=Console(stderr=True)):
        found[number] = decision
    return found


def play(policy: str, steps: str, profile: TimestepProfile, errors: np.ndarray) -> Played:
    """What a policy does with images whose errors are known: (n, K, 20)."""
    winners, tried = [], []
    timesteps = profile if steps == FITTED else EVEN
    if steps == EVEN and policy.startswith("exhaustive"):  # of fewer even trials only those among the twenty
        count = parse_policy(policy).trials
        chosen = STEPS[20 // count // 2 :: 20 // count][:count]
        timesteps = TimestepProfile(chosen, (1.0,) * count)
    for number, known in enumerate(errors):
        state = ClassifierState.empty(len(known))
        for trials in parse_policy(policy).rounds(state, TimestepSampler(timesteps, 1000, number)):
            columns = [STEPS.index(trial.t) for trial in trials]
            state.add(trials, known[np.ix_(state.alive, columns)])
        winners.append(ranking(state)[0])
        tried.append((~np.isnan(state.errors)).sum(0).tolist())
    return Played(np.array(winners), tried)


class Costs:
    """FLOPs of decisions of a model, relative to the paper's protocol without compression."""

    def __init__(self, name: str) -> None:
        denoiser = bigain.load(name)
        self.network, self.text_tokens = meta_copy(denoiser.network), denoiser.text_tokens
        self.paper = 125 * self.trial(1, None)

    @cache  # noqa: B019 - one for each model, as long as the program runs
    def trial(self, classes: int, compression: Compression | None) -> int:
        attach = [] if compression is None else [compression]
        return group_flops(self.network, attach, classes, text_tokens=self.text_tokens)

    def relative(self, tried: list[list[int]], compression: Compression | None = None) -> float:
        counts = Counter(k for trials in tried for k in trials if k)
        total = sum(count * self.trial(k, compression) for k, count in counts.items())
        return total / len(tried) / self.paper


def rows_of(name: str, kept: dict[str, np.ndarray], profile: TimestepProfile) -> list[dict[str, Any]]:
    errors, truth, costs = kept["errors"].astype(np.float64), kept["truth"], Costs(name)
    played = {(policy, steps, None): play(policy, steps, profile, errors)
              for policy, steps in POLICIES if usable(policy, steps)}  # fmt: skip
    for preset in ("balanced", "fast"):
        played[preset, FITTED, None] = play(PRESETS[preset].fitted, FITTED, profile, errors)
    for label in compressions(name):
        for preset in ("balanced", "fast"):
            tried = kept[f"{preset}, {label}, tried"].astype(int).tolist()
            played[preset, FITTED, label] = Played(kept[f"{preset}, {label}"], tried)
    paper = played[PAPER, EVEN, None]
    rows = []
    for (policy, steps, label), found in played.items():
        right, compression = found.winners == truth, compressions(name).get(label or "")
        share = wilson(int(right.sum()), len(right))
        change = share_difference(right, paper.winners == truth)
        dense = played[policy, steps, None].winners
        rows.append(
            {
                "policy": policy,
                "timesteps": steps,
                "compression": label,
                "evaluations": float(np.mean([sum(trials) for trials in found.tried])),
                "flops": costs.relative(found.tried, compression),
                "accuracy": {"value": share.value, "low": share.low, "high": share.high},
                "change": {"value": change.value, "low": change.low, "high": change.high},
                "same_label": float((found.winners == dense).mean()),
            }
        )
    return rows


def usable(policy: str, steps: str) -> bool:
    """Even timesteps of the twenty that were computed."""
    return steps == FITTED or policy.startswith(("race", "exhaustive")) or policy == PAPER


def sureness(kept: dict[str, np.ndarray], profile: TimestepProfile) -> dict[str, float]:
    """The calibration error of fitted probabilities and of plain ones, all timesteps."""
    errors, truth = kept["errors"].astype(np.float64), kept["truth"]
    columns = [STEPS.index(t) for t in profile.timesteps]
    found = {}
    for key, chosen, weights, scale, summed in (
        ("fitted", columns, np.array(profile.weights), profile.scale, True),
        ("plain", list(range(20)), np.ones(20), 4 * 16 * 16 / 2, False),
    ):
        part = errors[..., chosen]
        gaps = np.stack([distances(e, weights, (e @ weights).argsort(kind="stable"), summed=summed) for e in part])
        found[key] = calibration_error(gaps, truth, scale)
    return found


def main(name: str) -> None:
    profile = bigain.load(name).profile
    kept = computed(name, RESULTS / f"policies-{name}.npz")
    rows = rows_of(name, kept, profile)
    record = {
        "model": name, "n": len(kept["truth"]), "seed": SEED, "skipped": SKIPPED, "reference": PAPER,
        "profile": {"timesteps": profile.timesteps, "weights": profile.weights, "images": profile.images},
        "presets": {key: preset.fitted for key, preset in PRESETS.items()},
        "compressions": {label: str(found) for label, found in compressions(name).items()},
        "rows": rows, "calibration": sureness(kept, profile), "facts": environment(bigain.load(name)),
    }  # fmt: skip
    (RESULTS / f"policies-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    table = Table(title=f"{name}, {record['n']} test images")
    for head in ("policy", "timesteps", "compression", "evaluations", "FLOPs", "accuracy", "against the paper's"):
        table.add_column(head, overflow="fold")
    for row in sorted(rows, key=lambda row: row["flops"]):
        change = row["change"]
        table.add_row(
            row["policy"], row["timesteps"], row["compression"] or "", f"{row['evaluations']:.1f}",
            f"{row['flops']:.3f}", f"{row['accuracy']['value']:.1%}",
            f"{100 * change['value']:+.1f} [{100 * change['low']:+.1f}, {100 * change['high']:+.1f}]",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", default=["fashion-unet", "fashion-dit", "cifar-unet"])
    for name in parser.parse_args().model:
        main(name)

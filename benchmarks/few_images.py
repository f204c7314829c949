"""Does `fit` with few labelled images ever do harm? Profiles fitted to random draws of them, tried on all the others.

The errors of the test images are those that `benchmarks/policies.py` kept. Each draw is fitted as `classifier.fit` does
it; then a policy decides the images that were not drawn, with the fitted timesteps and with as many even ones of equal
weight. `python benchmarks/few_images.py` writes `benchmarks/results/few-images.json`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import bigain
from bigain.classify.weights import fit_profile
from bigain.experiments.machine import environment

RESULTS = Path(__file__).parent / "results"
MODELS = ("fashion-unet", "fashion-dit", "cifar-unet")
IMAGES = (10, 20, 40, 100)  # labelled images of a draw
DRAWS = 20
TRIALS = (5, 16)  # with which all classes are tried


def changes(errors: np.ndarray, truth: np.ndarray, count: int, trials: int) -> list[dict[str, Any]]:
    """For each draw, the accuracy of fitted less that of equal weights, on the images that were not drawn."""
    found = []
    for draw in range(DRAWS):
        order = np.random.default_rng([count, draw]).permutation(len(truth))
        drawn, others = order[:count], order[count:]
        fit = fit_profile(errors[drawn], truth[drawn], trials)
        columns = list(fit.columns)
        even = [(2 * i + 1) * errors.shape[2] // (2 * trials) for i in range(trials)]
        right = [
            (part @ weights).argmin(1) == truth[others]
            for part, weights in (
                (errors[others][..., columns], fit.weights),
                (errors[others][..., even], np.ones(trials)),
            )
        ]
        difference = right[0].astype(float) - right[1]
        found.append({
            "change": float(difference.mean()), "error": float(difference.std(ddof=1) / len(difference) ** 0.5),
            "equal": bool(fit.note),
        })  # fmt: skip
    return found


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Over the draws: the mean change, the worst one, and how many fell back or lost more than chance allows."""
    value = np.array([draw["change"] for draw in found])
    lost = [draw["change"] < -1.96 * draw["error"] for draw in found]
    return {
        "draws": len(found),
        "fell_back": sum(draw["equal"] for draw in found),
        "change": float(value.mean()),
        "worst": float(value.min()),
        "best": float(value.max()),
        "worse_beyond_chance": int(sum(lost)),
    }


def main() -> None:
    rows = []
    cases = [(name, count, trials) for name in MODELS for trials in TRIALS for count in IMAGES]
    for name, count, trials in track(cases, "fitting", console=Console(stderr=True)):
        with np.load(RESULTS / f"policies-{name}.npz") as kept:
            errors, truth = kept["errors"].astype(np.float64), kept["truth"]
        found = summary(changes(errors, truth, count, trials))
        rows.append({"model": name, "images": count, "trials": trials, "tested": len(truth) - count, **found})
    record = {"rows": rows, "facts": environment(bigain.load(MODELS[0]))}
    (RESULTS / "few-images.json").write_text(json.dumps(record, indent=1) + "\n")
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:+.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()

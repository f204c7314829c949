"""Accuracy against network evaluations for every policy, on the bundled images.

All errors (every class on 20 evenly spaced timesteps) are computed once and kept; each policy then plays on them,
which gives exactly the decisions that it would make. `python benchmarks/policies.py fashion-unet` writes
`benchmarks/results/policies-fashion-unet.json` and `.npz`, and the curve to `docs/images`; with the `.npz` there,
no error is computed anew.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import bigain
from bigain.classify.calibration import calibrate
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import distances, ranking
from bigain.classify.policies import Exhaustive, parse_policy
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler, mixed
from bigain.data.fashion_mnist import fashion_sample
from bigain.experiments.machine import environment
from bigain.metrics.intervals import wilson
from bigain.metrics.paired import share_difference
from bigain.plots.style import new_figure, save_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parent.parent / "docs" / "images"
REFERENCE = "stages(trials=(5, 20), keep=(5, 1))"
POLICIES = [
    *(f"exhaustive({n})" for n in (1, 2, 4, 5, 10, 20)),
    REFERENCE,
    "stages(trials=(5, 20), keep=(3, 1))",
    "stages(trials=(4, 10, 20), keep=(5, 2, 1))",
    "stages(trials=(2, 5, 10, 20), keep=(5, 3, 2, 1))",
    *(f"race(confidence={c}, first={f})" for f in (2, 3, 4) for c in (0.2, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)),
]


def errors_of(name: str, path: Path) -> dict[str, np.ndarray]:
    """Every class on every trial: computed, or read where they were kept."""
    if path.is_file():
        with np.load(path) as kept:
            return dict(kept)
    sample = fashion_sample()
    classifier = DiffusionClassifier(bigain.load(name), range(10), Exhaustive(20))
    found = [None] * len(sample.images)
    for number, decision in track(
        classifier.stream(sample.images), f"errors of {name}", len(found), console=Console(stderr=True)
    ):
        found[number] = decision.errors
    arrays = {"errors": np.stack(found).astype(np.float32), "truth": sample.labels}
    np.savez_compressed(path, **arrays)
    return arrays


def play(policy: object, sampler: TimestepSampler, errors: np.ndarray, column: dict[int, int]) -> ClassifierState:
    """What the policy does with one image whose errors are known."""
    state = ClassifierState.empty(len(errors))
    for trials in policy.rounds(state, sampler):
        state.add(trials, errors[np.ix_(state.alive, [column[trial.t] for trial in trials])])
    return state


LOOKS = {
    ("exhaustive", "even"): ("#888888", "o", "--"), ("exhaustive", "informative"): ("#888888", "s", "-"),
    ("stages", "even"): ("#CC6677", "^", ""), ("stages", "informative"): ("#CC6677", "v", ""),
    ("race", "even"): ("#332288", "o", "--"), ("race", "informative"): ("#332288", "s", "-"),
}  # fmt: skip


@styled
def curve(record: dict) -> "Figure":
    """Accuracy against evaluations for each kind of policy; of the races those that first look after three trials."""
    words = (
        f"{record['n']} bundled test images, seed {record['seed']}; bars: 95 % Wilson intervals. Race: first=3, "
        "confidence 0.2 to 0.99. Informative: timesteps in the order measured on 300 held-out training images."
    )
    figure = new_figure(7.5, 4.2, f"{record['model']}: accuracy against network evaluations", words)
    axes = figure.subplots()
    for (kind, trials), (colour, marker, line) in LOOKS.items():
        rows = [r for r in record["rows"] if r["policy"].startswith(kind) and r["timesteps"] == trials]
        rows = [r for r in rows if kind != "race" or "first=3" in r["policy"]]
        rows.sort(key=lambda r: r["evaluations"])
        x, y = [r["evaluations"] for r in rows], [100 * r["accuracy"] for r in rows]
        spread = [[v - 100 * r["low"] for v, r in zip(y, rows, strict=True)],
                  [100 * r["high"] - v for v, r in zip(y, rows, strict=True)]]  # fmt: skip
        style = {"color": colour, "marker": marker, "linestyle": line or "none", "label": f"{kind}, {trials} steps"}
        axes.errorbar(x, y, yerr=spread, elinewidth=0.5, **style)
    axes.set_xlabel("network evaluations a decision, mean")
    axes.set_ylabel("accuracy, %")
    axes.legend(loc="lower right")
    return figure


def main(name: str) -> None:
    kept = errors_of(name, RESULTS / f"policies-{name}.npz")
    errors, truth = kept["errors"].astype(np.float64), kept["truth"]
    denoiser = bigain.load(name)
    column = {t: i for i, t in enumerate(range(25, 1000, 50))}
    decks = {"even": "even", "informative": denoiser.informative_timesteps()}
    rows, reference = [], None
    for text in POLICIES:
        for trials, steps in decks.items():
            if text.startswith("exhaustive") and trials == "even" and 20 % parse_policy(text).trials:
                continue
            if trials == "even" and text.startswith("exhaustive") and text != "exhaustive(20)":
                deck_steps = tuple(
                    np.array(sorted(column))[20 // parse_policy(text).trials // 2 :: 20 // parse_policy(text).trials]
                )
            else:
                deck_steps = steps
            boards = [
                play(parse_policy(text), TimestepSampler(deck_steps, 1000, mixed(0, i)), row, column)
                for i, row in enumerate(errors)
            ]
            right = np.array([ranking(state)[0] for state in boards]) == truth
            if text == REFERENCE and trials == "even":
                reference = right
            share = wilson(int(right.sum()), len(right))
            spent = float(np.mean([(~np.isnan(state.errors)).sum() for state in boards]))
            rows.append({"policy": text, "timesteps": trials, "evaluations": spent, "right": right.tolist(),
                         "accuracy": share.value, "low": share.low, "high": share.high})  # fmt: skip
    for row in rows:
        change = share_difference(np.array(row.pop("right")), reference)
        row["change"] = {"value": change.value, "low": change.low, "high": change.high}
    half = len(truth) // 2
    gaps = np.stack([distances(row, row.mean(1).argsort(kind="stable")) for row in errors])
    fitted = calibrate(gaps[:half], truth[:half], 4 * 16 * 16 / 2)
    after = calibrate(gaps[half:], truth[half:], fitted.scale)
    record = {
        "model": name, "n": len(truth), "seed": 0, "reference": REFERENCE, "rows": rows, "facts": environment(denoiser),
        "calibration": {"scale": fitted.scale, "n": half, "ece_uncalibrated": float(calibrate(
            gaps[half:], truth[half:], 4 * 16 * 16 / 2).ece_before), "ece_held_out": after.ece_before},
    }  # fmt: skip
    (RESULTS / f"policies-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    save_figure(curve(record), PICTURES / f"policies-{name}.png")
    table = Table(title=f"{name}, {len(truth)} bundled test images, seed 0")
    for head in ("policy", "timesteps", "evaluations", "accuracy", "against the reference"):
        table.add_column(head, overflow="fold")
    for row in sorted(rows, key=lambda row: row["evaluations"]):
        change = row["change"]
        table.add_row(
            row["policy"], row["timesteps"], f"{row['evaluations']:.1f}",
            f"{row['accuracy']:.1%} [{row['low']:.1%}, {row['high']:.1%}]",
            f"{100 * change['value']:+.1f} [{100 * change['low']:+.1f}, {100 * change['high']:+.1f}]",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", default=["fashion-unet", "fashion-dit"])
    for name in parser.parse_args().model:
        main(name)

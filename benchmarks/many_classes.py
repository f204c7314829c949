"""How presets should be set for many classes, and whether groups of classes first would save more.

On the bundled drawings, which no reported number uses. A run of the most patient policy has all errors that more hasty
ones need, so these are replayed on it. Groups of classes are clusters of those whose errors rise and fall together on
one half of the drawings; on the other half, one class of each group is tried first, then all classes of the best ones.
`python benchmarks/many_classes.py` writes `benchmarks/results/many-classes.json`.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.cluster.hierarchy import fcluster, linkage

import bigain
from bigain.classify.curtail import Curtail
from bigain.classify.decision import ranking
from bigain.classify.state import ClassifierState
from bigain.classify.trials import TimestepSampler
from bigain.data import load_data
from bigain.experiments.machine import environment
from bigain.metrics.intervals import wilson

RESULTS = Path(__file__).parent / "results"
COUNTS = {37: 74, 100: 150, 345: 120}  # classes: drawings
PATIENT = 0.98
CONFIDENCES = (0.55, 0.6, 0.65, 0.7, 0.73, 0.75, 0.8, 0.85, 0.9, 0.95)
GROUPS, KEPT = (20, 40, 60, 90), (1, 2, 4, 8, 16, 30)


class Known(NamedTuple):
    """Errors (K, R) of each drawing, NaN where a class was not tried, and the true classes."""

    errors: list[np.ndarray]
    truth: np.ndarray


def patient(classes: int) -> Known:
    denoiser = bigain.load("quickdraw-dit")
    data = load_data(f"quickdraw-sample(classes={classes})").subset(COUNTS[classes])
    classifier = bigain.DiffusionClassifier(denoiser, data.classes, Curtail(PATIENT), timesteps="fitted")
    found: list[Any] = [None] * len(data)
    images = [example.image for example in data.examples]
    for number, decision in track(classifier.stream(images), f"{classes} classes", len(images), Console(stderr=True)):
        found[number] = decision.errors
    return Known(found, np.array([example.labels[0] for example in data.examples]))


def play(confidence: float, known: Known) -> dict[str, Any]:
    """What a more hasty policy decides, and what it spends."""
    profile = bigain.load("quickdraw-dit").profile
    winners, spent = [], []
    for errors in known.errors:
        state, evaluations = ClassifierState.empty(len(errors)), 0
        for place, trials in enumerate(Curtail(confidence).rounds(state, TimestepSampler(profile, 1000))):
            evaluations += len(state.alive)
            state.add(trials, errors[np.ix_(state.alive, [place])])
        winners.append(int(ranking(state)[0]))
        spent.append(evaluations)
    right = np.array(winners) == known.truth
    share = wilson(int(right.sum()), len(right))
    return {"confidence": confidence, "evaluations": float(np.mean(spent)), "winners": winners,
            "accuracy": {"value": share.value, "low": share.low, "high": share.high}}  # fmt: skip


def grouped(known: Known, winners: list[int]) -> list[dict[str, Any]]:
    """How many evaluations groups first would take in the first trial, and how often the winner is still among them."""
    first = np.stack([errors[:, 0] for errors in known.errors])
    centred = first - first.mean(1, keepdims=True)
    learnt, tested = centred[::2], centred[1::2]
    tree = linkage(learnt.T, "average", metric="correlation")
    rows = []
    for count in GROUPS:
        group = fcluster(tree, count, "maxclust")
        members = [np.flatnonzero(group == number) for number in np.unique(group)]
        speaks = np.array([own[np.abs(learnt[:, own] - learnt[:, own].mean(1, keepdims=True)).sum(0).argmin()]
                           for own in members])  # fmt: skip
        for kept in KEPT:
            best = tested[:, speaks].argsort(1)[:, :kept]
            chosen = [set(np.concatenate([members[number] for number in row]).tolist()) for row in best]
            there = [winner in own for own, winner in zip(chosen, winners[1::2], strict=True)]
            spent = [len(own | set(speaks.tolist())) for own in chosen]
            rows.append({"groups": len(members), "kept": kept, "evaluations": float(np.mean(spent)),
                         "winner_kept": float(np.mean(there)), "n": len(there)})  # fmt: skip
    return rows


def main() -> None:
    rows, groups = [], []
    table = Table("classes", "confidence", "evaluations", "accuracy", f"same label as {PATIENT}")
    for classes in COUNTS:
        known = patient(classes)
        reference = play(PATIENT, known)
        if classes == max(COUNTS):
            groups = grouped(known, reference["winners"])
        for found in [*(play(confidence, known) for confidence in CONFIDENCES), dict(reference)]:
            same = np.mean(np.array(found.pop("winners")) == np.array(reference["winners"]))
            rows.append({"classes": classes, "n": len(known.truth), **found, "same_label": float(same)})
            value = f"{100 * found['accuracy']['value']:.1f} %"
            table.add_row(str(classes), str(found["confidence"]), f"{found['evaluations']:.0f}", value, f"{same:.0%}")
    record = {"rows": rows, "groups": groups, "facts": environment(bigain.load("quickdraw-dit"))}
    (RESULTS / "many-classes.json").write_text(json.dumps(record, indent=1) + "\n")
    Console().print(table)
    for row in groups:
        Console().print(row)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()

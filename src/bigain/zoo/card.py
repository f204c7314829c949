"""Model cards: what a model is, how it was trained and how good it is, written by `bigain train`."""

import json
import platform
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from bigain.classify.classifier import DiffusionClassifier
from bigain.data.arrays import LabelledImages
from bigain.denoisers.base import Denoiser
from bigain.denoisers.labelled import LabelledDenoiser
from bigain.generation import Sampling, generate
from bigain.metrics.distances import Distance, frechet_to_real
from bigain.metrics.intervals import Share, wilson
from bigain.pictures import contact_sheet
from bigain.zoo.features import FeatureNet, predict

MOST_ROWS = 24  # of a sheet of samples
Progress = Callable[[str, int, int], None]  # (what, done, of)


class Accuracy(NamedTuple):
    """The share of images whose true class came first, and among the first five; how they were classified."""

    top1: Share
    top5: Share
    policy: str


def accuracy(
    denoiser: Denoiser, test: LabelledImages, rows: Sequence[int], policy: str, progress: Progress | None = None
) -> Accuracy:
    """Zero-shot accuracy on test images, uncompressed."""
    classifier = DiffusionClassifier(denoiser, range(len(test.classes)), policy)
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("accuracy", done, len(rows))

    decisions = classifier([test.images[i] for i in rows], progress=count)
    places = [d.ranking.index(int(test.labels[i])) for d, i in zip(decisions, rows, strict=True)]
    first, among = (wilson(sum(place < best for place in places), len(rows)) for best in (1, 5))
    return Accuracy(first, among, policy)


def sample_sheet(denoiser: LabelledDenoiser, each: int = 10, sampling: Sampling | None = None) -> Image.Image:
    """One row of guided samples for each class, or for some where there are many."""
    classes = len(denoiser.classes)
    shown = range(0, classes, -(-classes // MOST_ROWS))
    labels = [k for k in shown for _ in range(each)]
    return contact_sheet(generate(denoiser, labels, sampling), each)


def judge_samples(
    denoiser: LabelledDenoiser, features: FeatureNet, test: Tensor, count: int, sampling: Sampling
) -> dict[str, Any]:
    """How many samples the feature network recognises, and their Fréchet distance to test images."""
    labels = [i % len(denoiser.classes) for i in range(count)]
    images = generate(denoiser, labels, sampling)
    found, predicted = predict(features, images)
    real, _ = predict(features, test)
    distance = frechet_to_real(found.numpy(), real.numpy(), features=features.name, source="the test images")
    return {"recognised": wilson(int((predicted == torch.tensor(labels)).sum()), count), "distance": distance}


def make_card(
    recipe: dict[str, Any],
    progress: dict[str, Any],
    found: Accuracy,
    judged: dict[str, Any] | None,
    sampling: Sampling,
) -> dict[str, Any]:
    """The card of a finished run, as JSON."""
    share = found.top1
    card: dict[str, Any] = {
        "name": recipe["name"],
        "summary": f"{recipe['family']} on {recipe['data']}, {progress['parameters']:,} parameters, accuracy {share}",
        "recipe": recipe,
        **progress,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "accuracy": {
            "value": share.value, "low": share.low, "high": share.high, "n": share.n, "seed": 0,
            "policy": f"{found.policy}, uncompressed, test images outside the bundled sample",
        },
        "top5": {"value": found.top5.value, "low": found.top5.low, "high": found.top5.high},
    }  # fmt: skip
    if judged is not None:
        recognised: Share = judged["recognised"]
        distance: Distance = judged["distance"]
        card["samples"] = {
            "sampling": vars(sampling),
            "recognised": {**recognised._asdict(), "value": recognised.value},
            "distance": {key: value for key, value in distance._asdict().items() if key != "parts"}
            | {"name": distance.name},
        }
    return card


def card_text(card: dict[str, Any]) -> str:
    """The card as Markdown."""
    recipe, found = card["recipe"], card["accuracy"]
    predicts = "velocity" if recipe["schedule"].get("prediction_type") == "flow" else "noise"
    lines = [
        f"# {card['name']}",
        "",
        f"{recipe['family']} on {recipe['data']}, predicts {predicts}, {card['parameters']:,} parameters, trained by "
        f"`bigain train {card['name']}` on {card['samples_seen']:,} samples in {card['seconds'] / 60:.0f} minutes of "
        f"processor time ({card['machine']}).",
        "",
        f"- Zero-shot accuracy: {found['value']:.1%} [{found['low']:.1%}, {found['high']:.1%}], n = {found['n']}, "
        f"{found['policy']}.",
        *top_five(card),
        f"- Validation loss (averaged weights, fixed noise): {card['curve'][-1]['validation']:.4f}.",
    ]
    if "samples" in card:
        share, distance = card["samples"]["recognised"], card["samples"]["distance"]
        lines += [
            f"- Guided samples recognised as their class by {distance['features']}-features: {share['value']:.1%} "
            f"[{share['low']:.1%}, {share['high']:.1%}], n = {share['n']}.",
            f"- {distance['name']} to {distance['reference']}: {distance['value']:.2f} ± {distance['error']:.2f} "
            f"(real against real at n = {distance['n']}: {distance['floor']:.2f}).",
            "",
            "![samples](samples.png)",
        ]
    lines += ["", "## Recipe", "", "```json", json.dumps(recipe, indent=1), "```", "", "## Loss", ""]
    lines += ["| samples | training loss | validation loss |", "|---|---|---|"]
    curve = card["curve"]
    for point in [curve[i] for i in sorted({round(i) for i in np.linspace(0, len(curve) - 1, 12)})]:
        lines.append(f"| {point['samples']:,.0f} | {point['loss']:.4f} | {point['validation']:.4f} |")
    return "\n".join(lines) + "\n"


def top_five(card: dict[str, Any]) -> list[str]:
    """Where there are many classes, how often the true one is among the first five."""
    if "top5" not in card or card["recipe"]["architecture"].get("num_embeds_ada_norm", 0) <= 20:
        return []
    found = card["top5"]
    return [f"- Among the first five: {found['value']:.1%} [{found['low']:.1%}, {found['high']:.1%}]."]

"""Model cards: what a model is, how it was trained and how good it is, written by `bigain train`."""

import json
import platform
from collections.abc import Callable, Sequence
from typing import Any

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

Progress = Callable[[str, int, int], None]  # (what, done, of)


def accuracy(
    denoiser: Denoiser, test: LabelledImages, rows: Sequence[int], policy: Any, progress: Progress | None = None
) -> Share:
    """Zero-shot accuracy on test images, uncompressed."""
    classifier = DiffusionClassifier(denoiser, range(len(test.classes)), policy)
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("accuracy", done, len(rows))

    decisions = classifier([test.images[i] for i in rows], progress=count)
    return wilson(sum(d.index == int(test.labels[i]) for d, i in zip(decisions, rows, strict=True)), len(rows))


def sample_sheet(denoiser: LabelledDenoiser, each: int = 10, sampling: Sampling | None = None) -> Image.Image:
    """One row of guided samples for each class."""
    labels = [k for k in range(len(denoiser.classes)) for _ in range(each)]
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
    share: Share,
    judged: dict[str, Any] | None,
    sampling: Sampling,
) -> dict[str, Any]:
    """The card of a finished run, as JSON."""
    card: dict[str, Any] = {
        "name": recipe["name"],
        "summary": f"{recipe['family']} on {recipe['data']}, {progress['parameters']:,} parameters, accuracy {share}",
        "recipe": recipe,
        **progress,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "accuracy": {
            "value": share.value, "low": share.low, "high": share.high, "n": share.n, "seed": 0,
            "policy": "stages(trials=(5, 20), keep=(5, 1)), uncompressed, test images outside the bundled sample",
        },
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

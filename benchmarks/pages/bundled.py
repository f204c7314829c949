"""The bundled models without compression, from their cards."""

import json

from text import ROOT, Record, read, share, table

MODELS = ROOT / "src" / "bigain" / "zoo" / "models"
MODELS = {
    "fashion-unet": "`UNet2DConditionModel`, learned prompts",
    "fashion-dit": "`DiTTransformer2DModel`, class labels",
    "cifar-unet": "`UNet2DConditionModel`, learned prompts, colour",
}
FEATURES = ("fashion-features", "cifar-features")


def card(name: str) -> Record:
    return json.loads((MODELS / name / "card.json").read_text())


def distance(found: Record) -> str:
    """With its error, and what real images have at the same n."""
    own = found["samples"]["distance"]
    return f"{own['name']} {own['value']:.1f} ± {own['error']:.1f} (real: {own['floor']:.1f})"


def listed() -> str:
    """For the README."""
    rows = []
    for name, what in MODELS.items():
        found = card(name)
        rows.append([
            f"`{name}`", f"{what}, {found['parameters'] / 1e6:.1f} M parameters",
            share(found["accuracy"]), share(found["samples"]["recognised"]), distance(found),
        ])  # fmt: skip
    for name in FEATURES:
        found = card(name)["accuracy"]
        right = f"{100 * found['hits'] / found['n']:.1f} %"
        short = name.removesuffix("-features")
        rows.append([f"`{name}`", f"a classifier ({right} of the test set) whose features serve FD-{short}", *[""] * 3])
    return table(["name", "what", "zero-shot accuracy, 1,000 test images", "samples recognised, n = 500",
                  "Fréchet distance"], rows)  # fmt: skip


def models() -> str:
    rows = []
    for name in MODELS:
        found = card(name)
        rows.append([
            f"`{name}`", f"{found['parameters'] / 1e6:.2f} M", f"{found['samples_seen']:,}", share(found["accuracy"]),
            share(found["samples"]["recognised"]), distance(found),
        ])  # fmt: skip
    heads = ["model", "parameters", "training samples", "zero-shot accuracy, n = 1,000", "samples recognised, n = 500",
             "Fréchet distance"]  # fmt: skip
    return f"""## The models, uncompressed

{table(heads, rows)}

Accuracy on test images that are not among the bundled ones, stages [5, 20] keep [5, 1], evenly spaced timesteps,
seed 0; 95 % Wilson intervals. Recognised: guided samples that the feature network of the same data gives the intended
class. Fréchet distance to real test images in its features, beside that of real images at the same n.

{another_seed()}"""


def another_seed() -> str:
    """The loss that a tenth of each recipe reaches from another seed, beside the card's."""
    words = []
    for name, curve in read("seeds").items():
        known = {point["samples"]: point for point in card(name)["curve"]}
        point = max((point for point in curve if 10 * point["samples"] <= card(name)["samples_seen"]),
                    key=lambda point: point["samples"])  # fmt: skip
        ours, theirs = point["validation"], known[point["samples"]]["validation"]
        change = f"{100 * (ours / theirs - 1):+.1f} %".replace("-", "−")
        words.append(f"{name} after {point['samples']:,} samples {ours:.4f} instead of {theirs:.4f} ({change})")
    return f"""Trained again for a tenth of the samples with seed 1 (`python benchmarks/seeds.py`), the validation loss:
{"; ".join(words)}."""

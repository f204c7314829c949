"""The bundled models without compression, from their cards."""

import json

from text import ROOT, Record, read, share, table

ZOO = ROOT / "src" / "bigain" / "zoo" / "models"
MODELS = {
    "fashion-unet": "`UNet2DConditionModel`, learned prompts",
    "fashion-dit": "`DiTTransformer2DModel`, class labels",
    "fashion-mmdit": "`SD3Transformer2DModel`, learned prompts, rectified flow",
    "cifar-unet": "`UNet2DConditionModel`, learned prompts, colour",
}
FEATURES = ("fashion-features", "cifar-features", "quickdraw-features")


def card(name: str) -> Record:
    return json.loads((ZOO / name / "card.json").read_text())


def distance(found: Record) -> str:
    """With its error, and what real images have at the same n."""
    own = found["samples"]["distance"]
    return f"{own['name']} {own['value']:.1f} ± {own['error']:.1f} (real: {own['floor']:.1f})"


def listed() -> str:
    """All bundled models: what they are and how well they do uncompressed."""
    rows = []
    for name, what in MODELS.items():
        found = card(name)
        rows.append([
            f"`{name}`", what, f"{found['parameters'] / 1e6:.2f} M", f"{found['samples_seen']:,}",
            share(found["accuracy"]), share(found["samples"]["recognised"]), distance(found),
        ])  # fmt: skip
    heads = ["model", "class", "parameters", "training samples", "zero-shot accuracy, n = 1,000",
             "samples recognised, n = 500", "Fréchet distance"]  # fmt: skip
    features = []
    for name in FEATURES:
        found = card(name)["accuracy"]
        right = f"{100 * found['hits'] / found['n']:.1f} %"
        features.append([f"`{name}`", f"FD-{name.removesuffix('-features')}", right])
    return f"""{table(heads, rows)}

Accuracy: test images that are not among the bundled ones; stages [5, 20] keep [5, 1], evenly spaced timesteps, seed 0;
95 % Wilson intervals. Recognised: guided samples to which the feature network assigns the intended class. Fréchet
distance: to real test images, in the features of that network; in brackets, real images against real images at the same
n.

{table(["feature network", "serves", "accuracy on the whole test set"], features)}

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
        words.append([f"`{name}`", f"{point['samples']:,}", f"{theirs:.4f}", f"{ours:.4f}", change])
    return f"""How much does the seed matter? Each model was trained again with seed 1 for a tenth of its samples
(`python benchmarks/seeds.py`):

{table(["model", "samples", "validation loss, seed 0", "seed 1", "difference"], words)}"""

"""The bundled models without compression, from their cards."""

import json

from text import ROOT, Record, read, share, table

MODELS = ("fashion-unet", "fashion-dit")


def card(name: str) -> Record:
    return json.loads((ROOT / "src" / "bigain" / "zoo" / "models" / name / "card.json").read_text())


def listed() -> str:
    """For the README."""
    rows = []
    for name, what in zip(
        MODELS, ("`UNet2DConditionModel`, learned prompts", "`DiTTransformer2DModel`, class labels"), strict=True
    ):
        found = card(name)
        samples = found["samples"]
        rows.append([
            f"`{name}`", f"{what}, {found['parameters'] / 1e6:.1f} M parameters",
            share(found["accuracy"]), share(samples["recognised"]),
            f"{samples['distance']['value']:.1f} ± {samples['distance']['error']:.1f}",
        ])  # fmt: skip
    found = card("fashion-features")["accuracy"]
    right = f"{100 * found['hits'] / found['n']:.1f} %"
    rows.append(
        ["`fashion-features`", f"a classifier ({right} of the test set) whose features serve FD-fashion", *[""] * 3]
    )
    floor = card(MODELS[0])["samples"]["distance"]["floor"]
    return table(["name", "what", "zero-shot accuracy, 1,000 test images", "samples recognised, n = 500",
                  f"FD-fashion (real: {floor:.2f})"], rows)  # fmt: skip


def models() -> str:
    rows = []
    for name in MODELS:
        found = card(name)
        samples = found["samples"]
        distance = samples["distance"]
        rows.append([
            f"`{name}`", f"{found['parameters'] / 1e6:.2f} M", f"{found['samples_seen']:,}", share(found["accuracy"]),
            share(samples["recognised"]), f"{distance['value']:.1f} ± {distance['error']:.1f}",
        ])  # fmt: skip
    heads = ["model", "parameters", "training samples", "zero-shot accuracy, n = 1,000", "samples recognised, n = 500",
             "FD-fashion"]  # fmt: skip
    floor = card(MODELS[0])["samples"]["distance"]["floor"]
    return f"""## The models, uncompressed

{table(heads, rows)}

Accuracy on Fashion-MNIST test images that are not among the bundled ones, stages [5, 20] keep [5, 1], evenly spaced
time steps, seed 0; 95 % Wilson intervals. Recognised: guided samples that `fashion-features` gives the intended class.
FD-fashion of real against real images at n = 500 is {floor:.2f}.

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

"""Exact and local matching: what each costs in time, and what it keeps."""

from contrasts import accuracy_contrast, distance_contrast
from performance import EXACT, LOCAL, NONE, SIDES, by_name
from text import read, table

from compression import MAIN

RATIOS = [0.3, 0.5, 0.7]
ATTENTIONS = 5  # of the finest grid of Stable Diffusion's U-Net


def which_matching() -> str:
    return f"""## Which matching

`match="exact"` compares a token with all destinations, `match="local"` with those nearby. What matching, merging and
unmerging at the five finest attentions add to a step of Stable Diffusion 2.0:

{costs()}

What local matching changes, on the images and seeds of the [main comparison](results-details.md):

{quality()}

{verdict()}

Local matching is cheaper everywhere. `gated_merge` therefore matches locally beyond 4,096 tokens, where exact matching
takes more than a few hundredths of a step. Up to there the default is the paper's own operator, so that
`gated_merge(ratio=0.7)` on Stable Diffusion at 512 px is what the paper measured, with its FLOPs."""


def costs() -> str:
    found = {(row["tokens"], row["name"]): row["seconds"] for row in read("overhead")["rows"]}
    rows = []
    for side, pixels in SIDES.items():
        step = by_name(read(f"bench-sd2-{side}"))[NONE]["seconds"]
        rows.append(
            [f"{pixels}", f"{side * side:,}"]
            + [f"{100 * ATTENTIONS * found[side * side, name] / step:.1f} %" for name in (EXACT, LOCAL)]
        )
    return table(["pixels", "tokens", "exact, of an uncompressed step", "local"], rows)


def quality() -> str:
    rows = []
    for name in MAIN:
        accuracy = accuracy_contrast(MAIN[name], "gated_merge local", "gated_merge", "ratio")
        rows.append([name, "accuracy, points", *accuracy.cells()[1:]])
        distance = distance_contrast(MAIN[name], "gated_merge local", "gated_merge")
        rows.append([name, "FD-fashion", *distance.cells()[1:]])
    return table(["model", "local less exact", *(f"ratio {ratio}" for ratio in RATIOS), "mean"], rows)


def verdict() -> str:
    """In words, from the means: better or worse at the 95 % level."""
    words = {1: "better", 0: "no worse beyond chance", -1: "worse"}
    found = []
    for name, record in MAIN.items():
        pair = (record, "gated_merge local", "gated_merge", "ratio")
        classified, generated = accuracy_contrast(*pair).verdict, distance_contrast(*pair).verdict
        found.append(f"on {name} it classifies {words[classified]} and generates {words[generated]}")
    return f"Local against exact: {'; '.join(found)}."

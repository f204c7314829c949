"""How few evaluations a decision needs, from `benchmarks/policies.py`."""

from typing import TYPE_CHECKING

from text import IMAGES, RESULTS, Record, points, read, share, signs, table

from bigain.plots import save_figure
from bigain.plots.style import COLOURS, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = ("fashion-unet", "fashion-dit", "cifar-unet")
PAPER = "stages(trials=(5, 20), keep=(5, 1))"
PRESETS = ("balanced", "fast")
RECOMMENDED = "ratio 0.7, default sites"
WAYS = {"paper": "`paper`", "balanced": "`balanced`", "fast": "`fast`", "compressed": "`fast`, compressed"}
SHOWN = (  # policy, timesteps
    (PAPER, "even"),
    (PAPER, "fitted"),
    ("exhaustive(5)", "even"),
    ("exhaustive(5)", "fitted"),
    ("race(confidence=0.5)", "even"),
    ("race(confidence=0.5)", "fitted"),
    ("curtail(confidence=0.95)", "fitted"),
)
LOOKS = {
    ("exhaustive", "even"): (GREY, "o", ":"),
    ("stages", "even"): ("#CC6677", "^", ""),
    ("race", "even"): ("#117733", "o", "--"),
    ("race", "fitted"): ("#117733", "s", "-"),
    ("curtail", "fitted"): (COLOURS[0], "s", "-"),
}


def models() -> list[str]:
    return [name for name in MODELS if (RESULTS / f"policies-{name}.json").is_file()]


def rows_of(name: str) -> list[Record]:
    return read(f"policies-{name}")["rows"]


def row(name: str, policy: str, timesteps: str = "fitted", compression: str | None = None) -> Record:
    key = (policy, timesteps, compression)
    return next(r for r in rows_of(name) if (r["policy"], r["timesteps"], r["compression"]) == key)


def compressed(name: str, preset: str) -> Record:
    """The preset with the compression that the documentation names."""
    return row(name, preset, compression=RECOMMENDED)


def policies() -> str:
    record = read(f"policies-{models()[0]}")
    return "\n\n".join([
        f"""# Evaluations per decision

How few evaluations of the network does a decision need? The test images here were used for nothing else: settings of
compression were chosen on other test images, timesteps, weights and presets on training images and on the bundled
sample. All errors of all classes on 20 evenly spaced timesteps were computed once (`python benchmarks/policies.py
MODEL`). Each uncompressed policy was then replayed on them, which gives exactly the decisions it would make; compressed
ones ran for real.

- `paper` is `{PAPER}` on even timesteps, `balanced` is
  `{record["presets"]["balanced"]}` and `fast` is `{record["presets"]["fast"]}`, both on
  [fitted timesteps](classify.md#timesteps-for-your-labels).
{chr(10).join(map(gain_words, models()))}
{chr(10).join(map(compressed_words, models()))}
- Fitted weights: {weights_words()}

{verdicts()}""",
        *(of_model(name) for name in models()),
        few_images(),
    ])  # fmt: skip


def gain_words(name: str) -> str:
    parts = [f"`{preset}` spends {times(name, row(name, preset))} of the evaluations for "
             f"{points(**row(name, preset)['change'])} points" for preset in PRESETS]  # fmt: skip
    return f"- On `{name}`, {', '.join(parts)}."


def times(name: str, found: Record) -> str:
    return f"{100 * found['evaluations'] / row(name, PAPER, 'even')['evaluations']:.0f} %"


def compressed_words(name: str) -> str:
    found = compressed(name, "fast")
    return (
        f"- With compression and [correction](correction.md) ({found['compression']}), `fast` on `{name}` spends "
        f"{100 * found['flops']:.0f} % of the paper's FLOPs: {points(**found['change'])} points, "
        f"{100 * found['same_label']:.0f} % the same labels as `fast` without compression."
    )


def weights_words() -> str:
    """What the weights alone change at five timesteps, and with the paper's stages."""
    found = []
    for name in models():
        five = 100 * (
            row(name, "exhaustive(5)")["accuracy"]["value"] - row(name, "exhaustive(5)", "even")["accuracy"]["value"]
        )
        stages = 100 * (row(name, PAPER)["accuracy"]["value"] - row(name, PAPER, "even")["accuracy"]["value"])
        found.append(
            signs(f"{five:+.1f} points at five timesteps and {stages:+.1f} with the paper's stages on `{name}`")
        )
    return "; ".join(found) + "."


def verdicts() -> str:
    """Targets and what was reached."""
    lines = []
    for name in models():
        fast, balanced, least = row(name, "fast"), row(name, "balanced"), compressed(name, "fast")
        share_of = fast["evaluations"] / row(name, PAPER, "even")["evaluations"]
        lines.append([
            name,
            f"{100 * share_of:.0f} %: {told(share_of <= 1 / 4, 'a quarter', share_of <= 1 / 3, 'a third')}",
            f"{points(**fast['change'])}: {told(fast['change']['value'] >= -0.01, 'within 1 point')}",
            f"{points(**balanced['change'])}: {told(balanced['change']['high'] >= 0, 'level within the interval')}",
            f"{100 * least['flops']:.0f} %, {points(**least['change'])}: "
            f"{told(least['flops'] <= 1 / 5, 'a fifth', least['flops'] <= 1 / 4, 'a quarter')}",
        ])  # fmt: skip
    heads = ["model", "`fast`: evaluations", "`fast`: accuracy", "`balanced`: accuracy", "`fast`, compressed: FLOPs"]
    return f"The aims and what was reached, against the paper's protocol:\n\n{table(heads, lines)}"


def told(first: bool, word: str, second: bool = False, other: str = "") -> str:
    return word if first else other if second else "missed"


def of_model(name: str) -> str:
    record = read(f"policies-{name}")
    chosen = [row(name, *key) for key in SHOWN]
    chosen += [r for preset in PRESETS for r in record["rows"] if r["policy"] == preset]
    rows = [
        [
            f"`{r['policy']}`" + (f", {r['compression']}" if r["compression"] else ""),
            r["timesteps"],
            f"{r['evaluations']:.1f}",
            f"{100 * r['flops']:.1f}",
            share(r["accuracy"]),
            points(**r["change"]),
        ]
        for r in chosen
    ]
    heads = ["policy", "timesteps", "evaluations", "FLOPs, % of paper", "accuracy", "against paper"]
    best = ", ".join(f"`{r['policy']}`" + (f" ({r['compression']})" if r["compression"] else "") for r in pareto(name))
    sure = record["calibration"]
    return f"""## {name}

![Accuracy against FLOPs](images/policies-{name}.png)

{table(heads, rows)}

Pareto-best in accuracy and FLOPs, of all {len(record["rows"])} that were tried: {best}.

n = {record["n"]} test images (seed {record["seed"]}, after the first {record["skipped"]}); 95 % intervals: Wilson for
accuracy, Tango for differences on the same images. {record["facts"]["machine"]}. The expected calibration error of
the probabilities is
{sure["fitted"]:.2f} with the fitted scale and {sure["plain"]:.2f} for plain means without calibration."""


def few_images() -> str:
    """Whether a fit to few images does harm."""
    rows = read("few-images")["rows"]
    cells = [
        [r["model"], str(r["trials"]), str(r["images"]), f"{r['draws'] - r['fell_back']} of {r['draws']}",
         *(signs(f"{round(100 * r[key], 1) + 0.0:+.1f}") for key in ("change", "worst", "best")),
         str(r["worse_beyond_chance"])]
        for r in rows if r["fell_back"] < r["draws"]
    ]  # fmt: skip
    never = max((n for n in {r["images"] for r in rows} if all(r["fell_back"] == r["draws"] for r in rows
                 if r["images"] == n)), default=0)  # fmt: skip
    heads = ["model", "trials", "images", "draws that fitted", "change, points", "worst", "best", "worse beyond chance"]
    return f"""## A fit to few images

Does `fit` ever do harm? {rows[0]["draws"]} random draws of labelled images were fitted, and tried on all test images
that were not drawn, against as many even timesteps of equal weight (`python benchmarks/few_images.py`). With up to
{never} images every fit falls back to equal weights, and says so. With more, where some did not:

{table(heads, cells)}

Changes are means over all draws, those that fell back included. "Worse beyond chance" counts draws whose loss is beyond
1.96 standard errors of the paired difference."""


def pareto(name: str) -> list[Record]:
    """Rows that no other beats in both, from cheap to dear."""
    found: list[Record] = []
    for r in sorted(rows_of(name), key=lambda r: (r["flops"], -r["accuracy"]["value"])):
        if not found or r["accuracy"]["value"] > found[-1]["accuracy"]["value"]:
            found.append(r)
    return found


@styled
def curve(name: str) -> "Figure":
    """Accuracy against FLOPs for each kind of policy, and the presets with and without compression."""
    record = read(f"policies-{name}")
    words = (
        f"{record['n']} test images, seed {record['seed']}; bars: 95 % Wilson intervals. Timesteps and weights fitted "
        f"on {record['profile']['images']} training images. Stars: balanced (black) and fast; diamonds: the same with "
        "compression, corrected."
    )
    figure = new_figure(7.5, 4.4, f"{name}: accuracy against the FLOPs of a decision", words)
    axes = figure.subplots()
    for (kind, steps), (colour, marker, line) in LOOKS.items():
        rows = [r for r in record["rows"] if r["policy"].startswith(kind) and r["timesteps"] == steps]
        rows = sorted((r for r in rows if not r["compression"]), key=lambda r: r["flops"])
        style = {"color": colour, "marker": marker, "linestyle": line or "none", "label": f"{kind}, {steps} timesteps"}
        x, y = [100 * r["flops"] for r in rows], [100 * r["accuracy"]["value"] for r in rows]
        spread = [[v - 100 * r["accuracy"]["low"] for v, r in zip(y, rows, strict=True)],
                  [100 * r["accuracy"]["high"] - v for v, r in zip(y, rows, strict=True)]]  # fmt: skip
        axes.errorbar(x, y, yerr=spread, elinewidth=0.4, markersize=4, **style)
    for r in (r for r in record["rows"] if r["policy"] in PRESETS):
        marker, size = ("D", 6) if r["compression"] else ("*", 13)
        axes.plot(100 * r["flops"], 100 * r["accuracy"]["value"], marker, color="black", markersize=size,
                  markerfacecolor="white" if r["policy"] == "fast" else "black", zorder=5)  # fmt: skip
    axes.set_xlabel("FLOPs of a decision, % of the paper's protocol")
    axes.set_ylabel("accuracy, %")
    axes.set_xlim(left=0)
    low = min(r["accuracy"]["value"] for r in record["rows"] if r["flops"] > 0.1)
    axes.set_ylim(bottom=100 * low - 6)
    axes.legend(loc="lower right", fontsize=7)
    return figure


def draw() -> None:
    for name in models():
        save_figure(curve(name), IMAGES / f"policies-{name}.png")


def presets() -> str:
    """For README.md: what each preset spends and loses, model by model."""
    rows = [[label, *(preset_cell(name, way) for name in models())] for way, label in WAYS.items()]
    record = read(f"policies-{models()[0]}")
    return f"""{table(["", *(f"`{name}`" for name in models())], rows)}

Evaluations of the network for a decision, accuracy in points against the paper's protocol (n = {record["n"]} test
images that nothing was chosen on, 95 % intervals, [all policies](docs/results-evaluations.md)), and images a second
against a plain loop of that protocol (two CPU threads, [times](docs/performance.md#classifying))."""


def preset_cell(name: str, way: str) -> str:
    if way == "paper":
        found = row(name, PAPER, "even")
        return f"{found['evaluations']:.0f}, accuracy {100 * found['accuracy']['value']:.1f} %, {rate(name, way)}"
    found = compressed(name, "fast") if way == "compressed" else row(name, way)
    return f"{found['evaluations']:.0f}, {points(**found['change'])}, {rate(name, way)}"


def rate(name: str, way: str) -> str:
    """Images a second, as a factor of the plain loop's, where it was measured."""
    ways = {r["way"]: r for r in read("classify-speed")["rows"] if r["model"] == name}
    merged = next((key for key in ways if key.startswith("fast, gated_merge(ratio=0.7")), "")
    keys = {"paper": "classifier", "compressed": merged}
    found = ways.get(keys.get(way, way))
    return f"{found['times_plain_loop']:.1f}×" if found else "–"

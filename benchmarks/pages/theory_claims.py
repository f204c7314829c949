"""Which statements of the paper's theory hold here, from the analyses of `bigain analyze`."""

from collections.abc import Callable
from typing import NamedTuple

from text import IMAGES, RESULTS, Record, points, read, signs, table

from bigain.plots import save_figure
from bigain.plots import theory as figure
from compression import VERDICTS

MODELS = {"fashion-unet": "theory-unet", "fashion-dit": "theory-dit", "cifar-unet": "theory-cifar"}  # their experiments
WEAK = 0.1  # share of the variance up to which covariances may be neglected
NOTHING = "Not measured yet."
MOST, LEAST = "gated_merge, ratio 0.7", "tome fixed, ratio 0.7"
FORETELLERS = {
    "ratio": "r'/r, measured: the criterion",
    "first_order": "the criterion to first order",
    "margin_kept": "mu'/mu, measured",
    "predicted by tokens": "r'/r, predicted from the response of tokens",
    "predicted by differences": "r'/r, predicted from the response of class differences",
    "difference_error": "the error of class differences: no theory",
}


class Judged(NamedTuple):
    """1: holds beyond chance, -1: the opposite, 0: neither is shown; and the numbers."""

    verdict: int
    numbers: str


def models() -> list[str]:
    return [name for name in MODELS if (RESULTS / f"theory-{name}.json").is_file()]


def record(name: str) -> Record:
    return read(f"theory-{name}")


def row(found: Record, label: str) -> Record:
    return next(row for row in found["rows"] if row["label"] == label)


def dense(found: Record) -> Record:
    return row(found, found["dense"])


def above(part: Record, none: float = 0.0) -> Judged:
    """Whether an interval is above what would be no effect."""
    low, high = part["low"], part["high"]
    verdict = int(low is not None and low > none) - int(high is not None and high < none)
    return Judged(verdict, between(part))


def between(part: Record) -> str:
    value, low, high = ("∞" if part[key] is None else f"{part[key]:.2f}" for key in ("value", "low", "high"))
    return signs(f"{value} [{low}, {high}]")


def weak(found: Record) -> Judged:
    part = dense(found)["neglected"]
    inside = part["low"] >= -WEAK and part["high"] <= WEAK
    outside = part["low"] > WEAK or part["high"] < -WEAK
    return Judged(int(inside) - int(outside), between(part))


def lowers(found: Record, key: str) -> Judged:
    """Whether a ratio to uncompressed is below 1 in the mean of all settings, and in how many by itself."""
    mean = above(found["averages"][key], 1)
    judged = [above(row[key], 1).verdict for row in found["rows"] if row["label"] != found["dense"]]
    counts = f"below 1 in {judged.count(-1)}, above in {judged.count(1)} of {len(judged)}"
    return Judged(-mean.verdict, f"{mean.numbers}; {counts}")


def contrast(found: Record, theirs: str, kind: str) -> Judged:
    return above(
        next(one for one in found["contrasts"] if (one["ours"], one["theirs"]) == ("gated_merge", theirs))[kind]
    )


def low_pass(found: Record, kind: str) -> Judged:
    """The response to coarse bands less that to detail, of ToMe."""
    return above(row(found, LEAST)["response"][kind]["low_pass"])


def predicts(found: Record, kind: str) -> Judged:
    return above(found["foretold"][f"predicted by {kind}"]["with_measured_ratio"])


def foretells(found: Record, name: str = "ratio") -> Judged:
    return above(found["foretold"][name]["other_images"])


CLAIMS: dict[str, Callable[[Record], Judged]] = {
    "Detail is margin-rich: its share of mu less its share of sigma²": lambda r: above(dense(r)["detail_richness"]),
    "Bands are uncorrelated: covariances hold less than 10 % of sigma²": weak,
    "Merging is a low-pass of tokens: response to coarse bands less that to detail": lambda r: low_pass(r, "tokens"),
    "…and of what tells classes apart": lambda r: low_pass(r, "differences"),
    "Gating keeps more detail of tokens than ToMe's fixed pattern": lambda r: contrast(r, "tome fixed", "tokens"),
    "…and of what tells classes apart ": lambda r: contrast(r, "tome fixed", "differences"),
    "Gating keeps more detail of tokens than detailed destinations": lambda r: contrast(
        r, "gated_merge highest", "tokens"
    ),
    "…and of what tells classes apart  ": lambda r: contrast(r, "gated_merge highest", "differences"),
    "Compression lowers sigma: mean of sigma'/sigma": lambda r: lowers(r, "spread_kept"),
    "Compression lowers r, so the criterion holds: mean of r'/r": lambda r: lowers(r, "ratio"),
    "The response of tokens predicts r'/r: rank correlation": lambda r: predicts(r, "tokens"),
    "The response of class differences predicts r'/r: rank correlation": lambda r: predicts(r, "differences"),
    "r'/r foretells accuracy on other images: rank correlation": foretells,
}  # words that follow on the line before end in spaces, so that each is a key of its own


QUESTIONS: dict[str, Callable[[Record], Judged]] = {
    "Is detail margin-rich?": lambda r: above(dense(r)["detail_richness"]),
    "May covariances between bands be neglected?": weak,
    "Does gating keep more detail than ToMe, of tokens?": lambda r: contrast(r, "tome fixed", "tokens"),
    "And of what tells classes apart?": lambda r: contrast(r, "tome fixed", "differences"),
    "Does compression lower sigma, as a response below 1 would?": lambda r: lowers(r, "spread_kept"),
    "Does the response of tokens tell how r changes?": lambda r: predicts(r, "tokens"),
    "Does r foretell accuracy?": foretells,
    "Does the plain error of class differences foretell it?": lambda r: foretells(r, "difference_error"),
}
ANSWERS = {1: "yes", -1: "no", 0: "not shown"}


def in_short() -> str:
    """One line for each question."""
    if not models():
        return NOTHING
    lines = []
    for question, judge in QUESTIONS.items():
        verdicts = {name: judge(record(name)).verdict for name in models()}
        kinds = {verdict: [f"`{name}`" for name, own in verdicts.items() if own == verdict] for verdict in (1, -1, 0)}
        answers = [f"{ANSWERS[verdict]} on {', '.join(names)}" for verdict, names in kinds.items() if names]
        text = "; ".join(answers)
        lines.append(f"- **{question}** {text[0].upper()}{text[1:]}.")
    return "\n".join(lines)


def claims() -> str:
    """The verdicts, model by model."""
    if not models():
        return NOTHING
    found = {name: record(name) for name in models()}
    rows = []
    for text, judge in CLAIMS.items():
        judged = [judge(one) for one in found.values()]
        rows.append([text.strip(), *(f"{worded(one.verdict)}: {one.numbers}" for one in judged)])
    counts = ", ".join(f"{one['n']} on `{name}`" for name, one in found.items())
    one = next(iter(found.values()))
    return f"""{table(["statement", *(f"`{name}`" for name in found)], rows)}

Values with 95 % bootstrap intervals over test images ({counts}; {one["trials"]} trials of all classes each). A
statement holds, or its opposite, where the interval says so; none is corrected for how many there are. ToMe is
`tome(pattern="fixed")`; gating is compared in the mean of the ratios of both. Means of sigma'/sigma and r'/r are
geometric, over all settings; those settings are counted whose own interval leaves out 1.

{bounds(found)}"""


def worded(verdict: int) -> str:
    return f"**{VERDICTS[verdict]}**" if verdict else VERDICTS[verdict]


def bounds(found: dict[str, Record]) -> str:
    """Cantelli's bound beside the misses of the uncompressed models."""
    rows = []
    for name, one in found.items():
        own = dense(one)
        for part in own["misses"]:
            shares = (percent(part[key]) for key in ("bound", "gaussian", "real", "all_images"))
            rows.append([f"`{name}`", str(part["trials"]), *shares, percent(own["no_margin"])])
    heads = ["model", "trials", "Cantelli's bound", "if Gaussian", "real misses", "of all images", "images with mu ≤ 0"]
    return f"""{table(heads, rows)}

How often the mean of so many trials, drawn anew from an image's own, prefers the strongest rival: over images whose mu
is positive, and over all. The bound is of the former only. The others miss however many trials are run."""


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def details() -> str:
    """Each model: figure, settings, bands, and what foretells accuracy."""
    return "\n\n".join(of_model(name) for name in models()) or NOTHING


def of_model(name: str) -> str:
    found = record(name)
    moves = found["signs"]
    return f"""### {name}

![{name}: r against accuracy, bands, responses and predictions](images/theory-{name}.png)

{settings_table(found)}

Change of accuracy in points (95 % Tango interval, n = {found["n"]}, uncompressed
{percent(dense(found)["accuracy"]["value"])}). mu', sigma' and r' relative to uncompressed, as measured and as predicted
by the response of tokens and of class differences; r'/r also with its 95 % bootstrap interval. Bound, real: Cantelli's,
and how often {found["trials"]} trials prefer the strongest rival, over images whose mu is positive.

{bands_table(found)}

{foretold_table(found)}

Spearman's correlation across {moves["settings"]} settings: on the same images, and of the theory on one half of the
images with accuracy on the other. r falls in {moves["ratio_falls"]} settings and accuracy rises in
{moves["accuracy_rises"]}; they go the same way in {moves["alike"]} of the {moves["accuracy_moves"]} where accuracy
moves. {found["facts"]["machine"]}; `bigain analyze benchmarks/experiments/bundled/{MODELS[name]}.toml`."""


def settings_table(found: Record) -> str:
    rows = []
    for own in found["rows"]:
        if own["label"] == found["dense"]:
            continue
        change, last = own["change"], own["misses"][-1]
        predicted = (own["predicted"].get(kind) for kind in ("tokens", "differences"))
        rows.append([
            own["label"], points(change["value"], change["low"], change["high"]), between(own["ratio"]), three(own),
            *map(three, predicted), holds(own), f"{percent(last['bound'])}, {percent(last['real'])}",
        ])  # fmt: skip
    heads = ["setting", "accuracy", "r'/r", "mu', sigma', r'", "by tokens", "by class differences", "criterion",
             "bound, real"]  # fmt: skip
    return table(heads, rows)


def three(part: Record | None) -> str:
    """What is left of mu, sigma and r."""
    return "–" if part is None else ", ".join(number(part[key]) for key in ("margin_kept", "spread_kept", "ratio"))


def holds(own: Record) -> str:
    exact, first = (own["criterion"][key]["value"] for key in ("exact", "first_order"))
    return "holds to first order" if first > 0 else "holds exactly" if exact > 0 else "no"


def number(part: Record | None) -> str:
    return "–" if part is None or part["value"] is None else signs(f"{part['value']:.2f}")


def bands_table(found: Record) -> str:
    bands, own = found["bands"], dense(found)
    margins = [part["value"] for part in own["bands"]["mu"]]
    rows = [
        ["share of frequencies", *(f"{count / sum(bands['frequencies']):.2f}" for count in bands["frequencies"])],
        ["share of mu", *(signs(f"{part / sum(margins):.2f}") for part in margins)],
        ["less that of sigma²", *(between(part) for part in own["bands"]["richness"])],
    ]
    for label in (MOST, LEAST, "kv_downsample, factor 2"):
        for kind, words in (("tokens", "tokens"), ("exact", "keys, exactly"), ("differences", "class differences")):
            if kind in row(found, label)["response"]:
                gains = row(found, label)["response"][kind]["gain"]
                rows.append([f"{label}: response of {words}", *(number(part) for part in gains)])
    return table(["band, from … cycles a token", *(f"{edge:.3g}" for edge in bands["from"])], rows)


def foretold_table(found: Record) -> str:
    rows = [[words, between(found["foretold"][key]["same_images"]), between(found["foretold"][key]["other_images"])]
            for key, words in FORETELLERS.items() if key in found["foretold"]]  # fmt: skip
    return table(["foretells accuracy", "same images", "other images"], rows)


def draw() -> None:
    for name in models():
        save_figure(figure(record(name)), IMAGES / f"theory-{name}.png")

"""What a reader should take away: the short table of README.md and the first lines of the results."""

from contrasts import accuracy_contrast, compared
from figures import describe
from performance import LOCAL, NONE, SIDES, by_name
from policies import models as policy_models
from policies import row as policy_row
from policies import times
from text import RESULTS, read, signs, table

from bigain.experiments.report import Row
from bigain.experiments.tables import signed
from compression import CLAIMS, GENERATION, MAIN, VERDICTS, Claim, in_words, on_accuracy, on_distance, summary

KV = "kv_downsample(factor=2)"
RECOMMENDED = (  # operator, model, label in its record, record of its step time and the name of its row there
    (KV, "fashion-unet", "kv_downsample, factor 2", ("bench-sd2-64", KV)),
    ("gated_merge(ratio=0.7)", "fashion-unet", "gated_merge, ratio 0.7", ("bench-sd2-128", LOCAL)),
    (KV, "fashion-dit", "kv_downsample, factor 2", None),
)
CORRECTED = "gated_merge corrected, ratio 0.7"


def row_of(model: str, label: str) -> Row:
    return next(row for row in compared(MAIN[model]).rows if row.label == label)


def points(model: str, label: str) -> str:
    return signs(signed(row_of(model, label).change))


def saved(model: str, label: str) -> str:
    return f"{100 * row_of(model, label).saved:.1f} %"


def drift(model: str, label: str) -> str:
    """The change of the Fréchet distance."""
    change = row_of(model, label).distance_changes["FD-fashion"]
    return signs(f"{round(change.value, 1) + 0.0:+.1f} ± {change.error:.1f}")  # + 0.0: no minus before a zero


def step(place: tuple[str, str] | None) -> str:
    if place is None:
        return "not measured"
    record = read(place[0])
    return f"{by_name(record)[place[1]]['speedup']:.2f}× as fast at {8 * record['latent'][0]} px"


def corrected() -> Row:
    """The setting of group correction that the documentation names."""
    return next(row for row in compared(RESULTS / "correction-dit.sqlite").rows if row.label == CORRECTED)


def headline() -> str:
    """For README.md: four rows on the recommended settings."""
    columns = [[saved(model, label), points(model, label), drift(model, label), step(place)]
               for _, model, label, place in RECOMMENDED]  # fmt: skip
    ours = corrected()
    columns.append([f"{100 * ours.decision_saved:.1f} % of a decision", signs(signed(ours.change)),
                    "for classification only", "not measured"])  # fmt: skip
    names = ("FLOPs saved", "Classification: accuracy, points", "Generation: Fréchet distance",
             "Wall clock: a step of SD 2.0's U-Net")  # fmt: skip
    rows = [[name, *(column[i] for column in columns)] for i, name in enumerate(names)]
    heads = ["", *(f"`{operator}` on `{model}`" for operator, model, *_ in RECOMMENDED),
             "`gated_merge(ratio=0.7)`, corrected, on `fashion-dit`"]  # fmt: skip
    dense = [row_of(model, NONE) for model in MAIN]
    counts = " and ".join(str(row.accuracy.n) for row in dense)
    shares = " and ".join(f"{100 * row.accuracy.value:.1f} %" for row in dense)
    distances = " and ".join(f"{row.samples.distances['FD-fashion'].value:.1f}" for row in dense)
    floor = dense[0].samples.distances["FD-fashion"].floor
    steps = [(read(place[0]), place[1]) for *_, place in RECOMMENDED if place]
    rounds = " and ".join(str(record["rounds"]) for record, _ in steps)
    allowed = " and ".join(f"{by_name(record)[name]['bound']:.2f}" for record, name in steps)
    return f"""{table(heads, rows)}

Differences to the uncompressed models, with 95 % intervals and ± one standard error. Uncompressed: accuracy {shares}
on {counts} Fashion-MNIST test images, Fréchet distance {distances} (real images: {floor:.1f}).
Corrected: {ours.change.n} other test images, [group correction](docs/correction.md).
Step times: one CPU thread, random weights, {rounds} rounds; FLOPs allow {allowed} times."""


def opening() -> str:
    return f"""# Results

![{describe()}](images/before-after.png)

{takeaways()}

![Change of accuracy against FLOPs saved, for five methods on both models](images/trade-off.png)

All numbers on these pages are written by `python benchmarks/pages` from records in the repository. More of them:
[the main comparison](results-details.md), [evaluations per decision](results-evaluations.md),
[joint attention](results-joint.md), [smaller experiments](results-ablations.md), [performance](performance.md).

## The main settings

{summary()}

## Which of the paper's claims hold here

[The details](results-details.md#which-claims-hold-here) have the differences and the tests. On classification:

{in_words({claim.text: [on_accuracy(claim, name).verdict for name in MAIN] for claim in CLAIMS})}

On generation:

{in_words({claim.text: [on_distance(claim, name).verdict for name in MAIN] for claim in GENERATION})}"""


def takeaways() -> str:
    """Ten lines; every number and every verdict is the records'."""
    unet, dit = "fashion-unet", "fashion-dit"
    kv, low, high = "kv_downsample, factor 2", "gated_merge, ratio 0.3", "gated_merge, ratio 0.7"
    gated, tome = (signs(f"{100 * one_plan(name):+.1f}") for name in ("gated_merge", "tome per_row"))
    names = policy_models()
    fewer = ", ".join(times(name, policy_row(name, "fast")) for name in names)
    moved = ", ".join(signs(f"{100 * policy_row(name, 'fast')['change']['value']:+.1f}") for name in names)
    fast = " / ".join(f"{by_name(read(f'bench-sd2-{side}'))[LOCAL]['speedup']:.2f}" for side in SIDES)
    small = [row.speed.value for row in compared(RESULTS / "wall-clock.sqlite").rows if row.speed and row.name != NONE]
    counts = " and ".join(str(row_of(name, NONE).accuracy.n) for name in MAIN)
    return f"""- **U-Net.** `kv_downsample(factor=2)` saves {saved(unet, kv)} of the FLOPs and changes accuracy by
  {points(unet, kv)} points. `gated_merge(ratio=0.7)` saves {saved(unet, high)} for {points(unet, high)}.
- **DiT.** It is more sensitive. `kv_downsample(factor=2)` saves {saved(dit, kv)} for {points(dit, kv)} points.
  `gated_merge` changes it by {points(dit, low)} at ratio 0.3 and by {points(dit, high)} at ratio 0.7.
- **One plan for all classes** (`groups="input"`) changes the DiT's accuracy by {gated} points with `gated_merge` and by
  {tome} with `tome(pattern="per_row")`: means of ratios 0.5 and 0.7.
- **Group correction** ([what it is](correction.md)) gives the DiT back what `gated_merge(ratio=0.7)` costs:
  {signs(signed(corrected().change))} points to uncompressed, {100 * corrected().agreement.value:.0f} % the same labels,
  {100 * corrected().decision_saved:.0f} % of the FLOPs of a decision saved.
- **Is it the frequency?** Smooth destinations beat detailed ones: {told(SMOOTH)}.
  `gated_merge` beats ToMe with a fixed pattern: {told(GATE)}.
- **Are interpolated keys better than ToDo's?** {told(KEYS).capitalize()}.
- **Fewer evaluations.** `fast` ([fitted timesteps and early stopping](results-evaluations.md)) spends {fewer} of the
  paper's evaluations on {", ".join(f"`{name}`" for name in names)}. Accuracy changes by {moved} points.
- **Time.** `gated_merge(ratio=0.7, match="local")` runs a step of Stable Diffusion 2.0's U-Net {fast} times as
  fast at 512 / 768 / 1024 px on a CPU. On the small bundled U-Net no gain is shown: {min(small):.2f} to
  {max(small):.2f} times as fast.
- **How far this goes.** Two small models on Fashion-MNIST, {counts} images; intervals are 95 %. Larger models
  may behave differently: [measure yours](experiments.md)."""


def one_plan(name: str) -> float:
    """What sharing one plan among the classes adds to the DiT's accuracy."""
    return accuracy_contrast(RESULTS / "sharing-dit.sqlite", f"{name}, one plan", name, "ratio").mean.value


SMOOTH = next(claim for claim in CLAIMS if claim.theirs == "gated_merge highest")
GATE = next(claim for claim in CLAIMS if (claim.ours, claim.theirs) == ("gated_merge", "tome fixed"))
KEYS = next(claim for claim in CLAIMS if (claim.ours, claim.theirs) == ("kv_downsample", "todo"))


def told(claim: Claim) -> str:
    """`holds on fashion-dit, not shown on fashion-unet`."""
    return ", ".join(f"{VERDICTS[on_accuracy(claim, name).verdict]} on {name}" for name in MAIN)

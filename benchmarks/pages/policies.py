"""How few evaluations a decision needs, from `benchmarks/policies.py`."""

from text import points, read, share, signs, table

MODELS = ("fashion-unet", "fashion-dit")
SHOWN = (  # policy, timesteps
    ("exhaustive(20)", "even"),
    ("stages(trials=(5, 20), keep=(5, 1))", "even"),
    ("stages(trials=(2, 5, 10, 20), keep=(5, 3, 2, 1))", "informative"),
    ("exhaustive(5)", "even"),
    ("exhaustive(5)", "informative"),
    ("race(confidence=0.95, first=3)", "even"),
    ("race(confidence=0.5, first=3)", "even"),
    ("race(confidence=0.5, first=3)", "informative"),
    ("race(confidence=0.2, first=3)", "informative"),
    ("race(confidence=0.2, first=2)", "even"),
)


def policies() -> str:
    return "\n\n".join([
        f"""# Evaluations per decision

How few evaluations of the network does a decision need? All errors of all classes on 20 evenly spaced timesteps were
computed once (`python benchmarks/policies.py MODEL`, which also draws the figure). Each policy was then replayed on
them, which gives exactly the decisions it would make. "Informative" timesteps are the same 20, in an order measured on
300 held-out training images.

{chr(10).join(map(gain_words, MODELS))}
- With a fixed number of trials, informative timesteps are hardly better than even ones. They help a race, where the
  order matters.

What was settled on which images: the design of the race on 200 other test images and an earlier checkpoint of
`fashion-unet`; the choice of informative timesteps on the images below. A first rule, mean over spread of the margins,
chose clear timesteps that err on the same images: five of them were right on only 66 % of the DiT's images. Now each
timestep is the one that lowers the joint cross-entropy most.""",
        *(of_model(name) for name in MODELS),
    ])  # fmt: skip


def race_gain(name: str) -> tuple[float, float]:
    """The share of evaluations that a race saves against the paper's stages, and the change of accuracy."""
    found = {(row["policy"], row["timesteps"]): row for row in read(f"policies-{name}")["rows"]}
    ours = found["race(confidence=0.5, first=3)", "informative"]
    stages = found["stages(trials=(5, 20), keep=(5, 1))", "even"]
    return 1 - ours["evaluations"] / stages["evaluations"], ours["change"]["value"]


def gain_words(name: str) -> str:
    saved, change = race_gain(name)
    return f"""- On `{name}`, `race(confidence=0.5)` on informative timesteps needs {100 * saved:.0f} % fewer
  evaluations than the paper's stages. Accuracy changes by {signs(f"{100 * change:+.1f}")} points."""


def of_model(name: str) -> str:
    record = read(f"policies-{name}")
    found = {(row["policy"], row["timesteps"]): row for row in record["rows"]}
    rows = []
    for key in SHOWN:
        row, change = found[key], found[key]["change"]
        accuracy = {"value": row["accuracy"], "low": row["low"], "high": row["high"]}
        rows.append([f"`{key[0]}`", key[1], f"{row['evaluations']:.1f}", share(accuracy), points(**change)])
    heads = ["policy", "timesteps", "evaluations", "accuracy", "against stages [5, 20]"]
    kept = record["calibration"]
    return f"""## {name}

![Accuracy against network evaluations](images/policies-{name}.png)

{table(heads, rows)}

n = {record["n"]} bundled test images, seed {record["seed"]}; 95 % intervals: Wilson for accuracy, Tango for differences
on the same images. The expected calibration error of the raw probabilities is {kept["ece_uncalibrated"]:.2f}. With a
temperature fitted on the other {kept["n"]} images it is {kept["ece_held_out"]:.2f}."""

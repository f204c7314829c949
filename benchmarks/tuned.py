"""Tunes bundled models to savings of their FLOPs, and writes the experiment that compares them with single operators.

`python benchmarks/tuned.py fashion-dit`, then `bigain run benchmarks/experiments/bundled/tuned-fashion-dit.toml`. A
saving that no setting reaches is left out, and said. Stopped, it goes on with the same command.
"""

import argparse
from pathlib import Path

from rich.console import Console

from bigain.compression import Setting
from bigain.data import load_data
from bigain.loading import load_denoiser
from bigain.plots.tuned_page import tuned_page
from bigain.progress import progress_bars
from bigain.tuning.goal import Candidate, Goal, best
from bigain.tuning.material import Material
from bigain.tuning.tune import Effort, Request, Tuned, search

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "benchmarks" / "experiments" / "bundled"
SAVINGS = (0.15, 0.3, 0.45)
DATA = {
    "fashion": ("fashion-mnist(split='{}')", "fashion-sample", "fashion-features"),
    "cifar": ("cifar-10(split='{}')", None, "cifar-features"),
}
EFFORT = Effort(images=8, held_out=100, generated=4, held_out_generated=32)
EXPERIMENT = """\
# written by benchmarks/tuned.py
title = "Tuned settings, {model}"
about = \"\"\"\\
  Operators chosen site by site and by timestep against one operator with one strength, at the same saving. Both were \\
  chosen on training images and other seeds.\"\"\"
model = "{model}"
data = "{data}"
{without}n = 500
seed = 1
policy = "balanced"
tasks = ["classify", "generate"]

[generate]
count = 500
num_inference_steps = 25
features = "{features}"

[[rows]]
name = "none"
operator = "none"

[[rows]]
name = "tuned"
operator = "tuned/{model}-tuned-{{save}}.json"
save = {savings}

[[rows]]
# the best of all operators with one strength, at the usual sites, in all attention, or everywhere
name = "uniform"
operator = "tuned/{model}-uniform-{{save}}.json"
save = {savings}
"""


def tune_model(model: str, minutes: float, console: Console) -> list[int]:
    """Tune a model to each saving; -> those that were reached, in per cent."""
    denoiser, (data, _, _) = load_denoiser(model), DATA[model.partition("-")[0]]
    images = load_data(data.format("train")).subset(EFFORT.images + EFFORT.held_out, 0)
    names = [denoiser.classes[example.labels[0]] for example in images.examples]
    material = Material([example.image for example in images.examples], names)
    folder = PLACE / "tuned"
    folder.mkdir(exist_ok=True)
    runs = ROOT / "runs" / "tuned"
    runs.mkdir(parents=True, exist_ok=True)
    reached = []
    for save in SAVINGS:
        request = Request(Goal(save=save), material, minutes, runs / f"{model}.jsonl", effort=EFFORT)
        with progress_bars(console) as bars:
            tasks = {}

            def progress(what: str, done: int, total: int, bars=bars, tasks=tasks) -> None:
                if what not in tasks:
                    tasks[what] = bars.add_task(what, total=total)
                bars.update(tasks[what], completed=done, total=total)

            found = search(denoiser, request, progress)
        (runs / f"{model}-{save:.0%}.html").write_text(tuned_page(found, model, runs / f"{model}-{save:.0%}"))
        if write(found, folder, model, round(100 * save), console):
            reached.append(round(100 * save))
    return reached


def write(found: Tuned, folder: Path, model: str, percent: int, console: Console) -> bool:
    """Write the best tuned setting and the best uniform one; whether both save enough."""
    goal = found.goal
    tuned = [one for one in found.candidates if one.tuned and goal.met(one.verified)]
    uniform = found.uniform
    if not tuned or uniform is None or not goal.met(uniform.verified):
        console.print(
            f"{model}: {percent} % is out of reach; the most is {100 * goal.saved(found.chosen.verified):.1f} %"
        )
        return False
    first = best(tuned, goal)
    for kind, one in (("tuned", first), ("uniform", uniform)):
        save(found, one or found.chosen, folder / f"{model}-{kind}-{percent}.json")
        console.print(f"{model}, {percent} %, {kind}: {one.name if one else ''} {one.verified if one else ''}")
    return True


def save(found: Tuned, one: Candidate, path: Path) -> None:
    verified = one.verified.as_json()
    measured = {"saved": verified.pop("saved"), "kept": verified, "on": found.setting.measured["on"]}
    Setting(one.parts, found.setting.model, one.name, None, measured).save(path)


def write_experiment(model: str, savings: list[int]) -> None:
    data, without, features = DATA[model.partition("-")[0]]
    text = EXPERIMENT.format(
        model=model,
        data=data.format("test"),
        without=f'without = "{without}"\n' if without else "",
        features=features,
        savings=savings,
    )
    (PLACE / f"tuned-{model}.toml").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python benchmarks/tuned.py", description=__doc__)
    parser.add_argument("models", nargs="+", choices=["fashion-unet", "fashion-dit", "cifar-unet", "fashion-mmdit"])
    parser.add_argument("--minutes", type=float, default=60.0, help="for each saving; the first needs most of it")
    words = parser.parse_args()
    console = Console()
    for model in words.models:
        savings = tune_model(model, words.minutes, console)
        if savings:
            write_experiment(model, savings)


if __name__ == "__main__":
    main()

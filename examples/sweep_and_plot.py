"""Sweep the merge ratio of two operators and draw accuracy against it, with intervals."""
# ruff: noqa: T201

import argparse
from pathlib import Path

from bigain.experiments.experiment import build_experiment
from bigain.experiments.report import read_report
from bigain.experiments.runner import Run, run_chunks
from bigain.experiments.tables import markdown
from bigain.loading import load
from bigain.plots import curves, save_figure

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="fashion-unet")
parser.add_argument("--data", default="fashion-sample")
parser.add_argument("--n", type=int, default=4, help="images; a few hundred for a curve that means something")
parser.add_argument("--policy", default="exhaustive(1)", help="stages for the paper's")
parser.add_argument("--ratios", type=float, nargs="+", default=[0.3, 0.7])
options = parser.parse_args()

names = ("gated_merge", "tome")
rows = [{"name": name, "operator": f"{name}(ratio={{ratio}})", "ratio": options.ratios} for name in names]
settings = {"model": options.model, "data": options.data, "n": options.n, "policy": options.policy}
whole = {"title": "Sweep", "tasks": ["classify"], "rows": [{"name": "none", "operator": "none"}, *rows], **settings}
run_chunks(Run.start(build_experiment(whole), Path("sweep"), load(options.model)))  # stopped, it can be started again
report = read_report(Path("sweep"))
print(markdown(report))
print("drawn in", save_figure(curves(report), Path("sweep.png")))

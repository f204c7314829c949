"""How long importing and loading take in a new process: `python benchmarks/startup.py`.

Each round is a process of its own; what `bigain.load` imports from diffusers is imported before it and counted apart.
Writes `benchmarks/results/startup.json`.
"""

import argparse
import itertools
import json
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from rich.progress import track

RESULT = Path(__file__).parent / "results" / "startup.json"
ROUNDS = 9
STEPS = {
    "import torch": "import torch",
    "import bigain": "import bigain",
    "import of diffusers' models and schedulers": "from diffusers import DDIMScheduler, DiTTransformer2DModel, "
    "EulerDiscreteScheduler, UNet2DConditionModel",
    'bigain.load("fashion-unet")': 'bigain.load("fashion-unet")',
    'bigain.load("fashion-dit")': 'bigain.load("fashion-dit")',
    'bigain.load("fashion-features")': 'bigain.load("fashion-features")',
}
LINES = [f"{text}; times.append(time.perf_counter())" for text in STEPS.values()]
PROGRAM = "\n".join(["import time", "times = [time.perf_counter()]", *LINES, "print(times)"])


def one_process() -> list[float]:
    """Seconds of each step."""
    times = json.loads(subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True).stdout)
    return [after - before for before, after in itertools.pairwise(times)]


def main() -> None:
    argparse.ArgumentParser(prog="python benchmarks/startup.py", description=__doc__).parse_args()
    one_process()  # files into memory
    rounds = [one_process() for _ in track(range(ROUNDS), "starting")]
    rows = [
        {"step": step, "seconds": statistics.median(own), "quartiles": statistics.quantiles(own, n=4)[::2]}
        for step, own in zip(STEPS, zip(*rounds, strict=True), strict=True)
    ]
    record = {
        "rounds": ROUNDS,
        "machine": f"cpu, {platform.machine()}",
        "versions": {name: version(name) for name in ("bigain", "torch", "diffusers", "transformers")},
        "rows": rows,
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

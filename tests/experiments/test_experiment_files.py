"""The paper as files: each can be read, has the paper's numbers at its rows, and has a version that runs here."""

import re
from itertools import product
from pathlib import Path

import pytest

from bigain.experiments.compute import attached
from bigain.experiments.experiment import read_experiment
from bigain.loading import load
from bigain.tokens.scores import SCORERS

FOLDER = Path(__file__).parents[2] / "benchmarks" / "experiments"
FILES = {f"{path.parent.name}/{path.stem}": path for path in sorted(FOLDER.rglob("*.toml"))}
BUNDLED = [name for name in FILES if name.startswith("bundled/")]
MERGES = ("gated_merge", "gated_merge local", "block_merge", "tome per_row", "tome fixed", "tome corner",
          "gated_merge row_order", "gated_merge highest")  # fmt: skip
COARSER = ("kv_downsample", "todo", "avg_pool")


@pytest.mark.parametrize("name", FILES)
def test_the_numbers_of_the_paper_stand_at_rows(name: str) -> None:
    experiment = read_experiment(FILES[name])
    rows = [{"name": setting.name, **setting.values} for setting in experiment.settings]
    for numbers in experiment.paper:
        if numbers["name"] in {row["name"] for row in rows}:
            assert any(row.items() <= numbers.items() for row in rows), numbers
    assert bool(experiment.paper) == name.startswith("paper/")


def test_the_overview_names_each_file() -> None:
    table = [line.split("|")[1:5] for line in (FOLDER / "README.md").read_text().splitlines() if "| " in line]
    named = set()
    for _, _, *cells in [row for row in table if len(row) == 4]:
        for kind, cell in zip(("paper", "bundled"), cells, strict=True):
            for stem, several in re.findall(r"([a-z][\w-]*)(?:{([^}]*)})?", cell):
                named |= {f"{kind}/{stem}{end.strip()}" for end in several.split(",")}
    assert set(FILES) <= named, set(FILES) - named


@pytest.mark.parametrize("name", BUNDLED)
def test_each_setting_of_a_bundled_model_finds_its_sites(name: str) -> None:
    experiment = read_experiment(FILES[name])
    network = load(experiment.model).network
    for setting in experiment.settings:
        with attached(network, setting) as handles:  # a setting that would act nowhere is refused
            assert len(handles) == len(setting.attach)


@pytest.mark.parametrize(("name", "n"), [("main-unet", 500), ("main-dit", 300)])
def test_the_main_comparison_is_whole(name: str, n: int) -> None:
    experiment = read_experiment(FILES[f"bundled/{name}"])
    settings = {setting.label: setting for setting in experiment.settings}
    wanted = [f"{row}, ratio {ratio}" for row, ratio in product(MERGES, (0.3, 0.5, 0.7))]
    wanted += [f"{row}, factor {factor}" for row, factor in product(COARSER, (2, 4))]
    assert {"none", *wanted} <= settings.keys()
    assert min(setting.n for setting in settings.values()) >= n
    assert experiment.generate is not None
    assert experiment.generate.count >= 500
    made = {setting.name for setting in settings.values() if "generate" in setting.tasks}
    assert made >= {"none", "tome per_call", *MERGES, *COARSER} - {"tome per_row"}


def test_the_other_experiments_are_whole() -> None:
    experiments = {name.removeprefix("bundled/"): read_experiment(FILES[name]) for name in BUNDLED}
    assert min(found.n for name, found in experiments.items() if name != "wall-clock") >= 200
    values = {name: [s.values for s in found.settings] for name, found in experiments.items()}
    assert {v.get("scorer") for v in values["scorers"]} >= {name for name in SCORERS if "replicate" not in name}
    assert {-0.2, 1.4} <= {v.get("alpha") for v in values["alpha-sensitivity"]}
    assert min(v["ratio"] for v in values["motivation"] if v) == 0.1
    assert {"sito"} <= {s.name for s in experiments["equal-flops"].settings}
    assert any(a.reuse == "stage" for s in experiments["further-speedup"].settings for a in s.attach)

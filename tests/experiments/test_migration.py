"""Records of older versions: old names are replaced, current ones stay, and committed records hold no old ones."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import bigain
from bigain.experiments.migration import migrate
from bigain.experiments.report import read_report

ROOT = Path(__file__).parents[2]
RECORDS = sorted(
    [*(ROOT / "benchmarks" / "results").glob("*.sqlite"), *(Path(bigain.__file__).parent / "records").glob("*.sqlite")]
)
OLD_KEYS = {"trials", "steps", "guidance", "pieces", "prediction", "level"}
OLD_VALUES = re.compile(r"pattern='(random|row|shared)'|\b(tome|ToMe) (random|row|shared)\b|\bhalves\b|\blevel=")


@pytest.mark.parametrize(
    ("old", "current"),
    [
        ({"trials": "even"}, {"timesteps": "even"}),
        ({"trials": [25, 75]}, {"timesteps": [25, 75]}),
        (
            {"generate": {"count": 4, "steps": 25, "guidance": None}},
            {"generate": {"count": 4, "num_inference_steps": 25, "guidance_scale": None}},
        ),
        ([{"pieces": 3, "machine": "x"}], [{"chunks": 3, "machine": "x"}]),
        ({"operator": "tome(ratio=0.5, pattern='random')"}, {"operator": "tome(ratio=0.5, pattern='per_call')"}),
        ({"operator": "tome(ratio=0.5, pattern='row')"}, {"operator": "tome(ratio=0.5, pattern='per_row')"}),
        (
            {"operator": "ToMe(ratio=0.5, window=2, pattern='shared', seed=0)"},
            {"operator": "ToMe(ratio=0.5, window=2, pattern='fixed', seed=0)"},
        ),
        ({"groups": "halves"}, {"groups": "cfg"}),
        ({"where": "level=2"}, {"where": "downsample=2"}),
        ({"where": "part='down', level=(1, 2)"}, {"where": "downsample=(1, 2), part='down'"}),
        (
            {"attach": [{"operator": "tome(ratio=0.5, pattern='row')", "where": "level=1", "groups": "halves"}]},
            {"attach": [{"operator": "tome(ratio=0.5, pattern='per_row')", "where": "downsample=1", "groups": "cfg"}]},
        ),
    ],
)
def test_old_names_are_replaced(old: Any, current: Any) -> None:
    assert migrate(old) == current
    assert migrate(current) == current


@pytest.mark.parametrize(
    "value",
    [
        None,
        "trials",
        {"timesteps": "even", "policy": "stages(trials=(5, 20), keep=(5, 1))"},
        {"operator": "tome(ratio=0.5, pattern='corner')", "where": None, "reuse": "stage", "groups": "input"},
        {"operator": "gated_merge(ratio=0.7)", "where": "part='down'", "groups": 2},
        {"name": "mine", "values": {"steps": 3, "trials": 5, "level": "row"}},
        {"paper": [{"name": "tome", "steps": 25, "guidance": 4}]},
    ],
)
def test_current_names_and_those_of_authors_stay(value: Any) -> None:
    assert migrate(value) == value


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {key for key in value if isinstance(key, str)}
        return own.union(*(keys_of(part) for key, part in value.items() if key not in ("values", "paper")))
    return set[str]().union(*map(keys_of, value)) if isinstance(value, list | tuple) else set()


def test_there_are_records() -> None:
    assert {"main-unet", "main-dit", "sharing-dit"} <= {path.stem for path in RECORDS}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_committed_records_are_read_with_current_names(path: Path) -> None:
    report = read_report(path)
    contents = [report.title, report.about, report.experiment, report.sessions, [asdict(row) for row in report.rows]]
    assert not keys_of(contents) & OLD_KEYS
    assert not OLD_VALUES.search(repr(contents))
    assert "timesteps" in report.experiment

"""The page of the theory: verdicts are what intervals say, and its experiments give all that it asks for."""

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bigain.commands.analyze import analyze_model
from bigain.commands.measuring import Measurement
from bigain.experiments.experiment import read_experiment
from helpers.doc_pages import ROOT
from helpers.runs import save_tiny

pytestmark = pytest.mark.slow


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "pages")
    return importlib.import_module("theory_claims")


def part(value: float, low: float, high: float | None) -> dict[str, float | None]:
    return {"value": value, "low": low, "high": high}


def test_verdicts_are_what_intervals_say(page: ModuleType) -> None:
    assert page.above(part(0.2, 0.1, 0.3)) == (1, "0.20 [0.10, 0.30]")
    assert page.above(part(-0.2, -0.3, -0.1)) == (-1, "−0.20 [−0.30, −0.10]")
    assert page.above(part(0.1, -0.1, 0.3)).verdict == 0
    assert page.above(part(1.1, 1.05, None), 1) == (1, "1.10 [1.05, ∞]")
    for interval, verdict in (((-0.05, 0.08), 1), ((0.05, 0.2), 0), ((0.2, 0.4), -1), ((-0.4, -0.2), -1)):
        rows = [{"label": "none", "neglected": part(sum(interval) / 2, *interval)}]
        assert page.weak({"dense": "none", "rows": rows}).verdict == verdict


def test_a_mean_below_one_is_lower(page: ModuleType) -> None:
    rows = [{"label": name, "ratio": part(*own)} for name, own in
            {"none": (1, 1, 1), "a": (0.8, 0.7, 0.9), "b": (1.2, 1.1, 1.3), "c": (1, 0.9, 1.1)}.items()]  # fmt: skip
    found = {"dense": "none", "rows": rows, "averages": {"ratio": part(0.95, 0.92, 0.99)}}
    assert page.lowers(found, "ratio") == (1, "0.95 [0.92, 0.99]; below 1 in 1, above in 1 of 3")


def test_the_experiments_have_all_that_the_page_asks_for(
    page: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each with a tiny model and few images, as the numbers do not matter."""
    model, records = save_tiny(tmp_path / "model"), dict[str, dict[str, Any]]()
    for name, stem in page.MODELS.items():
        experiment = read_experiment(ROOT / "benchmarks" / "experiments" / "bundled" / f"{stem}.toml")
        assert experiment.model == name
        small = replace(experiment, model=str(model), data="fashion-sample", without=None)
        records[name] = records.get("fashion-unet") or analyze_model(
            Measurement(small, trials=2), "cpu", None, lambda label, total: None, n=4
        )
        labels = [setting.label for setting in experiment.settings]
        assert labels == [row["label"] for row in records[name]["rows"]]
    monkeypatch.setattr(page, "record", records.__getitem__)
    monkeypatch.setattr(page, "models", lambda: list(records))
    monkeypatch.setattr(page, "IMAGES", tmp_path)
    assert page.in_short().count("- **") == len(page.QUESTIONS)
    assert page.claims().count("\n| ") > len(page.CLAIMS)
    assert page.details().count("### ") == 3
    page.draw()
    assert (tmp_path / "theory-cifar-unet.png").is_file()


def test_without_records_nothing_is_said(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "models", list)
    assert {page.in_short(), page.claims(), page.details()} == {"Not measured yet."}

"""`bigain analyze` on a tiny model: what it says against the classifier's own errors, and what is kept."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bigain
from bigain import Compression
from bigain.commands import measuring
from bigain.commands.analyze import analyze_model, analyze_record
from bigain.commands.analyze_request import AnalyzeRequest
from bigain.commands.measuring import Measurement, patch_of
from bigain.data import load_data
from bigain.experiments.experiment import build_experiment
from bigain.experiments.folder import FILE
from bigain.experiments.runner import run_chunks
from bigain.experiments.store import Store
from bigain.theory.margins import paired_differences, strongest_rivals
from helpers.commands import invoke, run, run_json
from helpers.runs import contents, save_tiny, started

pytestmark = pytest.mark.slow

ROWS: list[dict[str, Any]] = [
    {"name": "none", "operator": "none"},
    {"name": "nothing", "operator": "gated_merge(ratio=0)"},
    {"name": "gated_merge", "operator": "gated_merge(ratio={ratio})", "ratio": [0.3, 0.7]},
    {"name": "tome", "operator": "tome(ratio={ratio}, pattern='fixed')", "ratio": [0.7]},
    {"name": "keys", "operator": "kv_downsample(factor=2, alpha=(0.2, 0.8))"},
    {"name": "chosen", "operator": "kv_select(keep=0.5)"},
    {"name": "corrected", "operator": "gated_merge(ratio=0.7)", "groups": "input", "correct": True},
    {"name": "fewer trials", "operator": "none", "policy": "exhaustive(1)"},
]
N, TRIALS = 6, 3


@pytest.fixture(scope="module", autouse=True)
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "AT_ONCE", 4)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


def measurement(model: Path, rows: list[dict[str, Any]], **options: Any) -> Measurement:
    found = contents(model, rows=rows, n=N, tasks=["classify"], policy=f"exhaustive({TRIALS})")
    del found["generate"]
    return Measurement(build_experiment(found), trials=TRIALS, **options)


@pytest.fixture(scope="module")
def found(model: Path) -> dict[str, Any]:
    return analyze_model(measurement(model, ROWS), "cpu", None, lambda label, total: None)


def row(found: dict[str, Any], label: str) -> dict[str, Any]:
    return next(row for row in found["rows"] if row["label"] == label)


def test_errors_are_those_of_the_classifier(model: Path, found: dict[str, Any]) -> None:
    """Accuracy, mu and sigma from decisions of the classifier itself, computed here by hand."""
    denoiser, data = bigain.load(model), load_data("fashion-sample").subset(N, 0)
    images, truth = [e.image for e in data.examples], np.array([e.labels[0] for e in data.examples])
    classifier = bigain.DiffusionClassifier(denoiser, data.classes, f"exhaustive({TRIALS})", timesteps="even")
    dense = np.stack([d.errors for d in classifier(images)])
    with bigain.compress(denoiser, "gated_merge(ratio=0.7)"):
        decisions = classifier(images)
    errors = np.stack([d.errors for d in decisions])
    chooser = bigain.DiffusionClassifier(denoiser, data.classes, f"exhaustive({TRIALS})", timesteps="even", seed=1)
    rivals = strongest_rivals(np.stack([d.errors for d in chooser(images)]), truth, 3)  # chosen by other noise
    before, after = (paired_differences(one, truth, rivals) for one in (dense, errors))
    own = row(found, "gated_merge, ratio 0.7")
    assert own["accuracy"]["value"] == np.mean([d.index for d in decisions] == truth)
    assert own["mu"]["value"] == pytest.approx(after.mean(), rel=1e-4)
    assert own["sigma"]["value"] == pytest.approx(after.var(2, ddof=1).mean() ** 0.5, rel=1e-4)
    assert own["margin_kept"]["value"] == pytest.approx(after.mean() / before.mean(), rel=1e-3)
    dense_row = row(found, "none")
    assert sum(part["value"] for part in dense_row["bands"]["mu"]) == pytest.approx(before.mean(), rel=1e-4)
    assert np.sum(dense_row["covariance"]) == pytest.approx(dense_row["sigma"]["value"] ** 2)


def test_an_operator_that_does_nothing_changes_nothing(found: dict[str, Any]) -> None:
    own = row(found, "nothing")
    assert own["change"]["value"] == 0
    for key in ("ratio", "margin_kept", "spread_kept"):
        assert own[key]["value"] == pytest.approx(1, abs=1e-6)
    for slack in own["criterion"].values():
        assert slack["value"] == pytest.approx(0, abs=1e-6)
    for kind in ("tokens", "differences"):
        assert [part["value"] for part in own["response"][kind]["gain"]] == pytest.approx([1] * 5, abs=1e-5)
        assert own["predicted"][kind]["ratio"]["value"] == pytest.approx(1, abs=1e-5)
    assert own["difference_error"]["value"] == pytest.approx(0, abs=1e-4)


def test_what_each_kind_of_plan_has(found: dict[str, Any]) -> None:
    kinds = {row["label"]: set(row["response"]) for row in found["rows"]}
    assert kinds == {
        "none": {"differences"},
        "nothing": {"tokens", "differences"},
        "gated_merge, ratio 0.3": {"tokens", "differences"},
        "gated_merge, ratio 0.7": {"tokens", "differences"},
        "tome, ratio 0.7": {"tokens", "differences"},
        "keys": {"tokens", "differences", "exact"},
        "chosen": {"differences"},
        "corrected": {"tokens", "differences"},
    }
    few, many = (row(found, f"gated_merge, ratio {ratio}") for ratio in (0.3, 0.7))
    assert many["response"]["tokens"]["detail"]["value"] < few["response"]["tokens"]["detail"]["value"] < 1
    assert many["saved"] > few["saved"] > 0


def test_the_correction_keeps_class_differences(found: dict[str, Any]) -> None:
    plain, corrected = row(found, "gated_merge, ratio 0.7"), row(found, "corrected")
    assert corrected["difference_error"]["value"] < plain["difference_error"]["value"]


def test_what_is_said_across_settings(found: dict[str, Any]) -> None:
    assert found["foretold"]["ratio"]["settings"] == 7
    assert found["foretold"]["predicted by tokens"]["settings"] == 6  # chosen keys have no response
    assert found["signs"]["settings"] == 7
    ratios = [part["ratio"]["value"] for part in found["rows"] if part["label"] != "none"]
    assert None not in ratios
    assert found["averages"]["ratio"]["value"] == pytest.approx(np.exp(np.mean(np.log(ratios))))
    (contrast,) = [one for one in found["contrasts"] if (one["ours"], one["theirs"]) == ("gated_merge", "tome")]
    assert contrast["values"] == [{"ratio": 0.7}]
    a, b = (row(found, f"{name}, ratio 0.7")["response"] for name in ("gated_merge", "tome"))
    for kind in ("tokens", "differences"):
        expected = a[kind]["detail"]["value"] - b[kind]["detail"]["value"]
        assert contrast[kind]["value"] == pytest.approx(expected)
    json.dumps(found, allow_nan=False)


def test_it_goes_on_where_it_was(model: Path, found: dict[str, Any], tmp_path: Path) -> None:
    """Interrupted in the second chunk, and asked for fewer settings first: the same numbers in the end."""
    seen = 0

    def stop(label: str, total: int) -> None:
        nonlocal seen
        seen += 1
        if seen == 40:
            raise KeyboardInterrupt

    place = tmp_path / "kept"
    analyze_model(measurement(model, ROWS[:2]), "cpu", place, lambda label, total: None, n=4)
    with pytest.raises(KeyboardInterrupt):
        analyze_model(measurement(model, ROWS), "cpu", place, stop)
    before = {path: path.stat().st_mtime_ns for path in place.glob("*.npz")}
    assert before
    again = analyze_model(measurement(model, ROWS), "cpu", place, lambda label, total: None)
    assert again["rows"] == found["rows"]
    first = [path for path in before if path.name.startswith("00000-00004")]
    assert len(first) == 8
    assert all(path.stat().st_mtime_ns == before[path] for path in first)
    with pytest.raises(ValueError, match="holds measurements of another analysis; its bands differ"):
        analyze_model(measurement(model, ROWS, bands=3), "cpu", place, lambda label, total: None)
    first[0].write_bytes(b"")
    with pytest.raises(ValueError, match=r"cannot be read .* delete it and run again"):
        analyze_model(measurement(model, ROWS), "cpu", place, lambda label, total: None)


def test_a_run_of_the_same_trials_says_the_same(model: Path, found: dict[str, Any], tmp_path: Path) -> None:
    rows = [part for part in ROWS if part["name"] in ("none", "gated_merge", "keys", "fewer trials")]
    made = started(model, tmp_path / "run", rows=rows, n=N, tasks=["classify"], policy=f"exhaustive({TRIALS})")
    run_chunks(made)
    made.store.close()
    own = analyze_record(tmp_path / "run")
    labels = ["none", "gated_merge, ratio 0.3", "gated_merge, ratio 0.7", "keys"]
    assert [part["label"] for part in own["rows"]] == labels
    with closing(Store(tmp_path / "run" / FILE, read_only=True)) as store:
        rows = {label: list(store.decisions(made.ids[label]).values()) for label in labels}
    truth = np.array([one.truth[0] for one in rows["none"]])
    rivals = strongest_rivals(np.stack([one.errors for one in rows["none"]]), truth, 3)
    for part in own["rows"]:
        differences = paired_differences(np.stack([one.errors for one in rows[part["label"]]]), truth, rivals)
        assert part["mu"]["value"] == pytest.approx(differences.mean(), rel=1e-5)
        assert part["sigma"]["value"] == pytest.approx(differences.var(2, ddof=1).mean() ** 0.5, rel=1e-5)
        assert part["accuracy"] == row(found, part["label"])["accuracy"]
        assert "bands" not in part
    assert "predicted by tokens" not in own["foretold"]
    shown = run("analyze", tmp_path / "run", "--record", tmp_path / "own.json")
    assert "holds" in shown
    assert json.loads((tmp_path / "own.json").read_text())["rows"] == own["rows"]
    run("report", tmp_path / "run", "--record", tmp_path / "small.sqlite")
    text = run("analyze", tmp_path / "small.sqlite", code=2)
    assert "a small copy without the errors of each trial; use the folder of the run" in text


def test_stages_are_compared_on_common_trials(model: Path, tmp_path: Path) -> None:
    rows = [{"name": "none", "operator": "none"}, {"name": "merge", "operator": "gated_merge(ratio=0.7)"}]
    policy = "stages(trials=(2, 4), keep=(4, 1))"
    made = started(model, tmp_path / "run", rows=rows, n=N, tasks=["classify"], policy=policy)
    run_chunks(made)
    decisions = [made.store.decisions(made.ids[label]) for label in ("none", "merge")]
    made.store.close()
    found = analyze_record(tmp_path / "run", rivals=1)
    assert found["trials"] == 4
    assert found["n"] == N
    means = []
    for image, dense in decisions[0].items():
        other, own = decisions[1][image].errors, dense.truth[0]
        assert dense.errors is not None
        assert other is not None
        lived = [(-int(np.isfinite(dense.errors[k]).sum()), float(np.nanmean(dense.errors[k])), k) for k in range(10)]
        rival = next(k for *_, k in sorted(lived) if k != own)
        pair = [errors[rival] - errors[own] for errors in (dense.errors, other)]
        means.append(float(np.nanmean(pair[1][np.isfinite(pair[0]) & np.isfinite(pair[1])])))
    assert row(found, "merge")["mu"]["value"] == pytest.approx(np.mean(means))


def test_the_finest_grid_of_a_model_in_patches() -> None:
    assert patch_of(bigain.load("fashion-dit")) == 1
    request = AnalyzeRequest("fashion-dit", operator=("tome(ratio=0.5)",))
    request.check()
    assert [part.label for part in request.measurement().experiment.settings] == ["tome(ratio=0.5)"]


def test_the_command(model: Path, tmp_path: Path) -> None:
    words = ("analyze", model, "--n", 4, "--trials", 2, "--operator", "todo(factor=2)", "--operator", "none")
    shown = run(*words, "--out", tmp_path / "out")
    assert "from … cycles a token" in shown
    assert (tmp_path / "out" / "theory.png").stat().st_size > 10_000
    found = run_json(*words, "--out", tmp_path / "out")
    assert [part["label"] for part in found["rows"]] == ["none", "todo()"]


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        ("analyze fashion-unt", "Did you mean 'fashion-unet'", 2),
        ("analyze fashion-unet --operator tme(0.5)", "Did you mean 'tome'", 2),
        ("analyze fashion-unet --operator tome(0.5) --operator tome(ratio=0.5)", "operators must differ, got tome", 2),
        ("analyze fashion-unet --data fashon-sample", "Did you mean 'fashion-sample'", 2),
        ("analyze fashion-unet --n 501", "n must be from 1 to 500", 2),
        ("analyze fashion-unet --bands 12", "bands must be from 2 to 9 on a grid of 16x16 tokens, got 12", 2),
        ("analyze fashion-unet --rivals 10", "rivals must be from 1 to 9, got 10", 2),
        ("analyze fashion-unet --trials 2000", "trials must be from 1 to 1000", 2),
        ("analyze fashion-unet --record none/x.json", "no folder none for the analysis x.json; create it first", 3),
        ("analyze none.toml", "no file none.toml", 3),
        ("analyze none.sqlite", "no record none.sqlite", 3),
        ("analyze none.sqlite --n 5", "is a run, whose errors are recorded; leave out --n", 2),
        ("analyze none.toml --seed 5", "is an experiment file with its rows; leave out --seed", 2),
        ("analyze cifar-unet --data fashion-sample", "unknown class 'T-shirt/top' of fashion-sample", 2),
    ],
)
def test_mistakes(words: str, text: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*words.split())
    shown = " ".join(result.output.split())
    assert result.exit_code == code, shown
    assert text in shown


def test_sites_and_options_reach_the_rows() -> None:
    request = AnalyzeRequest("fashion-unet", ("tome(ratio=0.5)",), where="part='down'", correct=True)
    (setting,) = request.measurement().experiment.settings
    assert setting.attach == (Compression("tome(ratio=0.5)", "part='down'", None, "input", True),)

"""Comparisons in reports: with the uncompressed model, or value by value with another row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bigain.experiments.report import Report, read_report
from bigain.experiments.rows import DecisionRow
from bigain.experiments.runner import FILE
from bigain.experiments.samples import Samples
from bigain.experiments.store import Store
from bigain.experiments.tables import markdown
from bigain.metrics.intervals import Estimate
from bigain.metrics.paired import holm, mcnemar, share_difference
from helpers.runs import experiment

pytestmark = pytest.mark.slow

ROWS = [
    {"name": "none", "operator": "none"},
    {"name": "merge", "operator": "gated_merge(ratio={ratio})", "ratio": [0.3, 0.5]},
    {"name": "plain", "operator": "tome(ratio={ratio})", "ratio": [0.5, 0.7]},
]
RIGHT = {  # of each setting, which of twelve images get their label
    "none": [1] * 12,
    "merge, ratio 0.3": [1] * 10 + [0] * 2,
    "merge, ratio 0.5": [0, 1] * 6,
    "plain, ratio 0.5": [0] * 7 + [1] * 5,
    "plain, ratio 0.7": [0] * 12,
}


def decision(number: int, right: int) -> DecisionRow:
    predicted = 3 if right else 5
    return DecisionRow(f"image {number}", (3,), predicted, (3, 5), (0.5, 0.5), 10, (500,), None, 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store(tmp_path / FILE)
    ids = store.begin(experiment(tmp_path, rows=ROWS, tasks=["classify"]))
    for label, right in RIGHT.items():
        store.add_decisions(ids[label], [decision(i, r) for i, r in enumerate(right)], {})
    store.close()
    return tmp_path


def found(report: Report) -> dict[str, tuple[object, object]]:
    return {row.label: (row.change, row.p) for row in report.rows}


def test_all_are_compared_with_the_uncompressed_model(folder: Path) -> None:
    report = read_report(folder)
    assert report.dense == "none"
    sides = {label: np.array(right, bool) for label, right in RIGHT.items()}
    labels = [label for label in RIGHT if label != "none"]
    p = holm(np.array([mcnemar(sides[label], sides["none"]).p for label in labels]))
    expected = {label: share_difference(sides[label], sides["none"]) for label in labels}
    assert found(report) == {"none": (None, None)} | {
        label: (expected[label], pytest.approx(value)) for label, value in zip(labels, p, strict=True)
    }
    assert "| against uncompressed |" in markdown(report)


def test_against_a_row_compares_equal_values(folder: Path) -> None:
    report = read_report(folder, against="plain")
    a, b = (np.array(RIGHT[f"{name}, ratio 0.5"], bool) for name in ("merge", "plain"))
    both = dict.fromkeys(RIGHT, (None, None))
    assert found(report) == both | {"merge, ratio 0.5": (share_difference(a, b), pytest.approx(mcnemar(a, b).p))}
    assert next(row.agreement for row in report.rows if row.change).hits == 7  # type: ignore[union-attr]
    assert "| against plain |" in markdown(report)
    assert report.dense == "none"


def test_against_a_label_compares_all_with_that_setting(folder: Path) -> None:
    report = read_report(folder, against="merge, ratio 0.5")
    sides = {label: np.array(right, bool) for label, right in RIGHT.items()}
    assert {row.label: row.change for row in report.rows} == {"merge, ratio 0.5": None} | {
        label: share_difference(sides[label], sides["merge, ratio 0.5"])
        for label in RIGHT
        if label != "merge, ratio 0.5"
    }


ALONE = {"chunks": 8, "until": "2026-01-01T10:05:00+00:00", "load_beyond": 0.1}


def timed(folder: Path, chunks: int, *sessions: tuple[str, str | None, dict[str, Any]]) -> Path:
    """Two settings, timed in chunks of two images whose evaluations differ."""
    store = Store(folder / FILE)
    ids = store.begin(experiment(folder, rows=ROWS, tasks=["classify"]))
    rates = [1.0, 0.5, 0.4, 0.8, 0.1, 2.0, 1.6, 1.25]
    slow = [decision(i, 1)._replace(seconds=2.0 * 10, evaluations=10) for i in range(2 * chunks)]
    fast = [decision(i, 1)._replace(seconds=rates[i // 2] * (7 + i), evaluations=7 + i) for i in range(2 * chunks)]
    store.add_decisions(ids["none"], slow, {})
    store.add_decisions(ids["merge, ratio 0.3"], fast[::-1], {})  # the same images in another order
    for started, ended, facts in sessions:
        number = store.log_session(started, facts)
        if ended is not None:
            store.end_session(number, ended)
    store.close()
    return folder


def at(first: str, last: str | None, **facts: Any) -> tuple[str, str | None, dict[str, Any]]:
    return f"2026-01-01T10:0{first}:00+00:00", last and f"2026-01-01T10:0{last}:00+00:00", ALONE | facts


def test_speed_is_the_median_of_the_same_images(tmp_path: Path) -> None:
    report = read_report(timed(tmp_path, 8, at("0", "5")))
    rows = {row.label: row.speed for row in report.rows}
    assert rows["none"] is None  # itself
    assert rows["merge, ratio 0.5"] is None  # not measured
    assert rows["merge, ratio 0.3"] == Estimate(2.25, 1.0, 20.0, 8)  # one ratio a chunk
    assert "| 2.25 [1.00, 20.00] |" in markdown(report)


@pytest.mark.parametrize(("chunks", "cell"), [(1, "2.00 (n = 1)"), (5, "4.00 (n = 5)")])
def test_speed_of_few_pieces_has_no_interval(chunks: int, cell: str, tmp_path: Path) -> None:
    report = read_report(timed(tmp_path, chunks, at("0", "5")))
    assert f"| {cell} |" in markdown(report)
    assert f"speed-up over n = {chunks} chunks: too few for an interval, which needs 6" in markdown(report)
    assert next(row.speed for row in report.rows if row.speed).as_json()["low"] is None


@pytest.mark.parametrize(
    ("sessions", "reason"),
    [
        ([], "load not recorded"),
        ([("2026-01-01T10:00:00+00:00", None, {"machine": "old"})], "load not recorded"),
        ([at("0", "5", load_beyond=None)], "load not recorded"),
        ([at("0", "5", load_beyond=0.9)], "machine was busy"),
        ([at("0", "5"), at("5", "7", load_beyond=0.9)], "machine was busy"),
        ([at("0", "5"), at("4", "7")], "several processes ran at once"),
        (
            [at("0", None), at("4", "7")],
            "several processes ran at once",
        ),  # the first was killed after its chunk at 10:05
        ([at("0", "5", machine="a"), at("6", "7", machine="b")], "several machines"),
    ],
)
def test_times_made_beside_other_work_are_no_speed(
    sessions: list[tuple[str, str | None, dict[str, Any]]], reason: str, tmp_path: Path
) -> None:
    report = read_report(timed(tmp_path, 8, *sessions))
    row = next(row for row in report.rows if row.label == "merge, ratio 0.3")
    assert (row.speed, row.speed_note) == (None, reason)
    assert f"| {reason} |" in markdown(report)
    assert f"speed-up not shown ({reason})" in markdown(report)
    assert next(row.speed for row in read_report(tmp_path, idle=True).rows if row.speed).value == 2.25


@pytest.mark.parametrize("sessions", [[at("0", "5"), at("5", "7")], [at("0", "5"), at("4", "7", chunks=0)]])
def test_sessions_one_after_the_other_are_timed(
    sessions: list[tuple[str, str | None, dict[str, Any]]], tmp_path: Path
) -> None:
    assert any(row.speed for row in read_report(timed(tmp_path, 8, *sessions)).rows)


def test_settings_that_share_no_image_are_not_compared(tmp_path: Path) -> None:
    store = Store(tmp_path / FILE)
    ids = store.begin(experiment(tmp_path, rows=ROWS, tasks=["classify"]))
    store.add_decisions(ids["none"], [decision(0, 1)], {})
    store.add_decisions(ids["merge, ratio 0.3"], [decision(1, 1)], {})
    store.close()
    rows = {row.label: row for row in read_report(tmp_path).rows}
    assert rows["merge, ratio 0.3"].change is None
    assert rows["merge, ratio 0.3"].accuracy is not None


def test_a_record_replaces_records_only(folder: Path, tmp_path: Path) -> None:
    store = Store(folder / FILE, read_only=True)
    with pytest.raises(ValueError, match="is the run itself; use another file"):
        store.write_record(folder / FILE)
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt already exists and is not a record"):
        store.write_record(notes)
    assert notes.read_text() == "mine"
    for _ in range(2):
        store.write_record(tmp_path / "small.sqlite")
    store.close()
    assert read_report(tmp_path / "small.sqlite") == read_report(folder)
    assert not list(tmp_path.glob(".*"))


def test_a_small_record_of_several_labels_keeps_the_rankings(tmp_path: Path) -> None:
    store = Store(tmp_path / FILE)
    ids = store.begin(experiment(tmp_path, rows=ROWS, tasks=["classify"]))
    several = [decision(0, 1), decision(1, 0)._replace(truth=(0, 1))]
    several = [row._replace(ranking=(1, 0), chances=(0.4, 0.6), truth=(0, 1)[: len(row.truth)]) for row in several]
    store.add_decisions(ids["none"], several, {})
    store.write_record(tmp_path / "small.sqlite")
    store.close()
    whole, small = read_report(tmp_path), read_report(tmp_path / "small.sqlite")
    assert whole == small
    assert small.rows[0].ranking is not None


def test_an_image_of_fewer_steps_is_counted_as_such(tmp_path: Path) -> None:
    rows = [
        {"name": "none", "operator": "none"},
        {"name": "fewer", "operator": "none", "num_inference_steps": 3},
        {"name": "both", "operator": "todo(factor=2)", "num_inference_steps": 3},
        {"name": "todo", "operator": "todo(factor=2)"},
    ]
    generate = {"count": 2, "num_inference_steps": 4}
    store = Store(tmp_path / FILE)
    ids = store.begin(experiment(tmp_path, rows=rows, tasks=["generate"], generate=generate))
    for label, flops in {"none": 100, "fewer": 100, "both": 80, "todo": 80}.items():
        store.add_measure(ids[label], "flops", flops)
        store.add_measure(ids[label], "samples", Samples(2).as_json())
    store.close()
    report = read_report(tmp_path)
    saved = {row.label: row.image_saved for row in report.rows}
    assert saved == pytest.approx({"none": 0, "fewer": 1 / 4, "both": 1 - 0.8 * 3 / 4, "todo": 0.2})
    assert "| saved of an image % |" in markdown(report)
    alike = replace(report, rows=[row for row in report.rows if row.label in ("none", "todo")])
    assert "| saved % |" in markdown(alike)
    assert "of an image" not in markdown(alike)


def test_an_unknown_row_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown row 'plan'\. Did you mean 'plain'"):
        read_report(folder, against="plan")


@pytest.mark.parametrize("classes", [6, 21, 40])
def test_of_many_classes_the_first_five_count_too(tmp_path: Path, classes: int) -> None:
    """Also in the small record, which keeps only the beginning of a long ranking."""
    store = Store(tmp_path / FILE)
    ids = store.begin(experiment(tmp_path, rows=ROWS, tasks=["classify"]))
    for label, place in (("none", 4), ("merge, ratio 0.3", 5)):  # of the true class, counted from 0
        order = tuple((3 + k - place) % classes for k in range(classes))
        store.add_decisions(ids[label], [decision(0, 0)._replace(ranking=order, predicted=order[0])], {})
    store.write_record(tmp_path / "small.sqlite")
    whole, small = read_report(tmp_path), read_report(tmp_path / "small.sqlite")
    ranking = Store(tmp_path / "small.sqlite", read_only=True).decisions(1)["image 0"].ranking
    store.close()
    assert whole == small
    assert len(ranking) == (21 if classes > 20 else 0)
    assert [row.top5 and row.top5.value for row in small.rows[:2]] == ([1.0, 0.0] if classes > 20 else [None, None])
    assert ("top-5 %" in markdown(small)) == (classes > 20)

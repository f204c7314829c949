import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from bigain.bench.flops import count_flops
from bigain.data import load_data
from bigain.data.fashion_mnist import fashion_sample
from bigain.experiments.evaluator import Evaluator, features_of
from bigain.experiments.folder import Claims
from bigain.experiments.machine import why_no_speed
from bigain.experiments.report import read_report
from bigain.experiments.runner import Run, run_chunks
from bigain.experiments.subjects import class_conditions
from bigain.loading import load
from bigain.models.architectures import meta_copy
from bigain.operators.gated_merge import GatedMerge
from bigain.zoo.catalog import folder_of
from bigain.zoo.features import load_features
from helpers.runs import contents, experiment, results, save_tiny, started

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


def run_all(model: Path, folder: Path, **changes: object) -> dict[str, object]:
    run = started(model, folder, **changes)
    run_chunks(run)
    return results(run)


@pytest.fixture(scope="module")
def whole(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return run_all(model, tmp_path_factory.mktemp("whole"))


def in_child(model: Path, folder: Path) -> int:
    """Start the same run in a process of its own."""
    child = os.fork()
    if child == 0:
        try:
            run_chunks(started(model, folder), patience=0.05)
            os._exit(0)
        finally:
            os._exit(1)
    return child


def test_everything_is_there_once(whole: dict[str, list[tuple[object, ...]]]) -> None:
    assert len(whole["decisions"]) == 3 * 20 + 17
    assert len(whole["generated"]) == 3 * 30
    assert sum(row[4] is not None for row in whole["generated"]) == 3 * 20


def test_twenty_kills_lose_nothing(model: Path, whole: dict[str, object], tmp_path: Path) -> None:
    rng = random.Random(0)
    killed = 0
    for _ in range(20):
        child = in_child(model, tmp_path)
        time.sleep(rng.uniform(0.02, 0.4))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
    assert killed > 5
    assert run_all(model, tmp_path) == whole


def test_two_processes_share_the_work(model: Path, whole: dict[str, object], tmp_path: Path) -> None:
    children = [in_child(model, tmp_path) for _ in range(2)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    run = started(model, tmp_path)
    assert results(run) == whole
    assert len(run.store.meta()["sessions"]) == 2


def test_a_finished_run_does_nothing_again(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(model, tmp_path)
    run_chunks(run)
    monkeypatch.setattr(type(run), "work", lambda *_: pytest.fail("worked again"))
    run_chunks(started(model, tmp_path))


def test_more_images_and_rows_may_be_added(model: Path, tmp_path: Path, whole: dict[str, object]) -> None:
    run_all(model, tmp_path, n=16, rows=contents(model)["rows"][:1], tasks=["classify"])
    found = run_all(model, tmp_path)
    key = {row[0]: row[1] for row in found["settings"]}
    assert sorted(key.values()) == sorted(row[1] for row in whole["settings"])
    first = [row[1:] for row in found["decisions"] if key[row[0]] == "none"]
    assert first == [row[1:] for row in whole["decisions"] if row[0] == 1]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"seed": 1}, r'-\s+"seed": 0,\n\+\s+"seed": 1,'),
        ({"policy": "exhaustive(2)"}, "exhaustive"),
        ({"generate": {"count": 30, "num_inference_steps": 2}}, r'\+\s+"num_inference_steps": 2'),
        ({"rows": [{"name": "none", "operator": "todo(factor=2)"}]}, "setting none"),
    ],
)
def test_a_changed_file_is_refused(model: Path, tmp_path: Path, change: dict[str, object], difference: str) -> None:
    started(model, tmp_path)
    with pytest.raises(ValueError, match=difference):
        started(model, tmp_path, **change)


def test_a_changed_default_of_an_operator_is_refused(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(text: str) -> None:
        started(model, tmp_path, rows=[{"name": "merge", "operator": text}])

    begin("gated_merge(ratio=0.5)")
    begin("gated_merge(anchor='lowest', ratio=0.5)")  # the same, said otherwise
    others = tuple("highest" if value == "lowest" else value for value in GatedMerge.__init__.__defaults__ or ())
    monkeypatch.setattr(GatedMerge.__init__, "__defaults__", others)
    with pytest.raises(ValueError, match=r"\+.*anchor='highest'"):
        begin("gated_merge(ratio=0.5)")


def test_a_corrupt_image_is_left_out_by_name(model: Path, tmp_path: Path) -> None:
    for i in range(20):
        place = tmp_path / "images" / ("bag" if i % 2 else "coat")
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (28, 28), 10 * i).save(place / f"{i}.png")
    (tmp_path / "images" / "bag" / "7.png").write_bytes(b"no picture")
    data = f"folder('{tmp_path / 'images'}')"
    found = run_all(model, tmp_path / "run", data=data, tasks=["classify"], rows=contents(model)["rows"][:2])
    assert len(found["decisions"]) == 3 * 19
    assert [row[0] for row in found["skipped"]] == ["bag/7.png"]
    assert "cannot read" in found["skipped"][0][1]


def test_a_session_says_what_ran_beside_it(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([0.3, 2.5, 1.0])
    monkeypatch.setattr(os, "getloadavg", lambda: (next(loads), 0.0, 0.0))  # what the machine does is not ours to say
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    run = started(model, tmp_path, tasks=["classify"], n=4, rows=contents(model)["rows"][:2])
    run_chunks(run)
    run_chunks(run)
    first, second = run.store.sessions()
    assert (first["chunks"], first["load_beyond"]) == (3, 1.5)
    assert first["started"] <= first["until"] <= first["ended"]
    assert (second["chunks"], second.get("load_beyond")) == (0, None)  # found nothing to do, so it spoils nothing
    assert why_no_speed([first, second]) == "machine was busy"
    assert why_no_speed([first | {"load_beyond": 0.2}, second]) is None


def test_the_load_of_this_machine_is_looked_at(model: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path, tasks=["classify"], n=4, rows=contents(model)["rows"][:1])
    run_chunks(run)
    assert run.store.sessions()[0]["load_beyond"] >= 0


def test_features_that_are_no_numbers_give_no_distance(model: Path, tmp_path: Path) -> None:
    generate = {"count": 4, "num_inference_steps": 1, "features": "fashion-features"}
    run = started(model, tmp_path, tasks=["generate"], rows=contents(model)["rows"][:1], generate=generate)
    run_chunks(run)
    features = load_features(folder_of("fashion-features"))
    features.body[-1].bias[3] = float("nan")
    evaluator = Evaluator(run)
    evaluator.predict = features_of(features)
    with pytest.raises(ValueError, match="real images: the features of 500 of 500 images are not finite, first of"):
        evaluator.evaluate(run.experiment.settings[0])
    assert "samples" not in run.store.measures(1)


def test_a_full_disk_stops_and_loses_nothing(model: Path, tmp_path: Path, whole: dict[str, object]) -> None:
    run = started(model, tmp_path)
    pages = run.store.base.execute("pragma page_count").fetchone()[0]
    run.store.base.execute(f"pragma max_page_count = {pages + 4}")
    with pytest.raises(Exception, match="full"):
        run_chunks(run)
    run.store.close()
    assert run_all(model, tmp_path) == whole


def test_a_claim_is_held_by_one_process(tmp_path: Path) -> None:
    """Until it is released, whatever else that process claims and releases."""
    claims = Claims(tmp_path / "lock")
    assert claims.claim(3)
    assert claims.claim(5)
    claims.release(5)
    child = os.fork()
    if child == 0:
        others = Claims(tmp_path / "lock")
        os._exit([others.claim(number) for number in (3, 4, 5)] != [False, True, True])
    assert os.waitpid(child, 0)[1] == 0
    claims.close()


def test_measures(model: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path)
    run_chunks(run)
    evaluator = Evaluator(run)
    for setting in run.experiment.settings:
        evaluator.evaluate(setting)
    dense, merged, _, own = (run.store.measures(run.ids[s.label]) for s in run.experiment.settings)
    assert merged["flops"] < dense["flops"]
    assert "samples" not in own
    assert "ssim" not in dense["samples"]
    assert 0 < merged["samples"]["ssim"]["value"] < 1
    assert merged["samples"]["n"] == 30


def test_images_are_compared_with_uncompressed_ones_that_came_later(model: Path, tmp_path: Path) -> None:
    rows = contents(model)["rows"]

    def judged(chosen: list[dict[str, Any]]) -> dict[str, Any]:
        run = started(model, tmp_path, rows=chosen, tasks=["generate"], generate={"count": 4, "num_inference_steps": 1})
        run_chunks(run)
        for setting in run.experiment.settings:
            Evaluator(run).evaluate(setting)
        return run.store.measures(run.ids["merge, ratio 0.3"])["samples"]

    assert "ssim" not in judged(rows[1:2])
    assert "ssim" in judged(rows[:2])


def test_prompts_are_counted_as_long_as_they_are(model: Path) -> None:
    denoiser = load(model)
    assert denoiser.text_tokens == 2
    network = meta_copy(denoiser.network)
    assert count_flops(network, text_tokens=2) < count_flops(network)


def test_other_images_in_the_same_folder_are_refused(model: Path, tmp_path: Path) -> None:
    for name in ("bag/1", "bag/2", "coat/1"):
        (tmp_path / "few" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (28, 28)).save(tmp_path / "few" / f"{name}.png")
    changes: dict[str, Any] = {"data": f"folder('{tmp_path / 'few'}')", "n": 2, "tasks": ["classify"]}
    changes["rows"] = [{"operator": "none"}]
    started(model, tmp_path / "run", **changes)
    started(model, tmp_path / "run", **changes)
    (tmp_path / "few" / "bag" / "1.png").rename(tmp_path / "few" / "coat" / "2.png")
    with pytest.raises(ValueError, match=r"undo this change of data:\n(.*\n)*-.*hash"):
        started(model, tmp_path / "run", **changes)


def test_a_folder_may_be_named_after_a_class_with_a_slash(tmp_path: Path) -> None:
    for name in ("T-shirt_top", "bag"):
        (tmp_path / name).mkdir()
        Image.new("L", (28, 28)).save(tmp_path / name / "1.png")
    classes, _ = class_conditions(load("fashion-unet"), load_data(f"folder('{tmp_path}')"))
    assert classes == ["T-shirt/top", "bag"]


def test_the_small_record_has_what_reports_need(model: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path / "run")
    run_chunks(run)
    run.store.write_record(tmp_path / "record.sqlite")
    small = type(run.store)(tmp_path / "record.sqlite", read_only=True)
    assert small.settings() == run.store.settings()
    assert all(row.errors is None for row in small.decisions(1).values())
    assert read_report(tmp_path / "record.sqlite") == read_report(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"timesteps": "informativ"}, "informativ"),
        ({"generate": {"count": 4, "scheduler": "dimm"}}, "Did you mean 'ddim'"),
        ({"generate": {"count": 4, "features": "fashion-featurs"}}, "Did you mean 'fashion-features'"),
        (
            {"generate": {"count": 300, "features": "fashion-features"}},
            "got 500 from fashion-sample; generate at most 250",
        ),
        ({"rows": [{"operator": "todo(2)", "where": "downsample=9"}]}, "no site at downsample 9"),
    ],
)
def test_a_mistake_costs_no_work_and_binds_no_folder(
    changes: dict[str, Any], error: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=error):
        started(model, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_images_are_recognised_by_the_names_of_their_classes(tmp_path: Path) -> None:
    """The order of the classes is that of the folders, not that of the feature network."""
    data = fashion_sample()
    for name in ("bag", "dress", "trouser"):
        (tmp_path / "few" / name).mkdir(parents=True)
        for number in (data.labels == data.classes.index(name)).nonzero()[0][:4]:
            Image.fromarray(data.images[number]).save(tmp_path / "few" / name / f"{number}.png")
    changes: dict[str, Any] = {
        "data": f"folder('{tmp_path / 'few'}')",
        "tasks": ["generate"],
        "rows": [{"operator": "none"}],
        "generate": {"count": 6, "num_inference_steps": 15, "features": "fashion-features"},
    }
    run = Run.start(experiment(Path("fashion-unet"), **changes), tmp_path / "run", load("fashion-unet"))
    run_chunks(run)
    found = Evaluator(run).samples(run.experiment.settings[0]).recognised
    assert found.hits >= 5

"""Rows with a cache: they generate only, and their FLOPs count what each step computes."""

import pytest

import bigain
from bigain.bench.flops import count_flops, reused_flops
from bigain.experiments.evaluator import Evaluator
from bigain.experiments.experiment import build_experiment
from bigain.experiments.report import read_report
from bigain.experiments.runner import run_chunks
from bigain.models.architectures import meta_copy
from helpers.runs import contents, save_tiny, started

ONLY = {"tasks": ["generate"]}
ROWS = [
    {"name": "none", "operator": "none", **ONLY},
    {"cache": "every(k={k})", "k": [2, 3], **ONLY},
    {"name": "both", "operator": "gated_merge(ratio=0.5)", "cache": "every(k=2)", "num_inference_steps": 5, **ONLY},
]


@pytest.mark.slow
def test_rows_with_a_cache(tmp_path):
    run = started(save_tiny(tmp_path / "model"), tmp_path / "run", rows=ROWS,
                  generate={"count": 4, "num_inference_steps": 4})  # fmt: skip
    run_chunks(run)
    evaluator = Evaluator(run)
    for setting in run.experiment.settings:
        evaluator.evaluate(setting)
    network, method, size = meta_copy(run.denoiser.network), bigain.Every(2), evaluator.size
    run.store.close()
    found = {row.label: row for row in read_report(tmp_path / "run").rows}
    assert list(found) == ["none", "every(k={k}), k 2", "every(k={k}), k 3", "both"]
    dense, reused = count_flops(network, **size), reused_flops(network, method, **size)
    assert 0 < reused < dense == found["none"].flops
    assert found["every(k={k}), k 2"].flops == round((dense + reused) / 2)  # steps 0 and 2 of 4
    assert found["every(k={k}), k 3"].flops == round((dense + reused) / 2)  # steps 0 and 3
    with bigain.compress(network, "gated_merge(ratio=0.5)"):
        merged, both = count_flops(network, **size), reused_flops(network, method, **size)
    assert found["both"].flops == round((3 * merged + 2 * both) / 5)
    assert found["every(k={k}), k 2"].samples.ssim.value < 1
    assert found["both"].image_saved == pytest.approx(1 - 5 / 4 * found["both"].flops / dense)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"name": "kept", "cache": "every(k=2)"}, r"row 'kept' cannot classify with every\(k=2\), which reuses outputs "
         r"of earlier sampler steps, because trials have none; add tasks = \[\"generate\"\] to the row"),
        ({"cache": "evry(k=2)", **ONLY}, "unknown cache 'evry'. Did you mean 'every'"),
        ({"cache": 3, **ONLY}, "cache must be a string, such as 'every\\(k=3\\)', got 3"),
        ({"cache": "every(k=1)", **ONLY}, "k must be an int of at least 2, got 1"),
        ({"cache": "every(k={k})", **ONLY}, r"its braces are \['k'\]"),
    ],
)  # fmt: skip
def test_rows_that_are_refused(tmp_path, row, text):
    with pytest.raises(ValueError, match=text):
        build_experiment(contents(tmp_path, rows=[row]))


def test_a_cache_that_the_model_cannot_have_is_refused_before_anything_runs(tmp_path):
    rows = [{"cache": "first_block(threshold=0.1)", **ONLY}]
    with pytest.raises(ValueError, match=r"first_block\(threshold=0.1\) cannot act on UNet2DConditionModel"):
        started(save_tiny(tmp_path / "model"), tmp_path / "run", rows=rows)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_what_a_first_block_cache_computes_is_counted(tmp_path):
    """The images decide, so the first are made again; with thresholds at the ends the share is known."""
    rows = [{"name": "all", "operator": "none", **ONLY}, *(
        {"name": name, "cache": f"first_block(threshold={threshold})", **ONLY}
        for name, threshold in (("never", 1e-9), ("always", 1e9))
    )]  # fmt: skip
    run = started("fashion-dit", tmp_path / "run", rows=rows, generate={"count": 4, "num_inference_steps": 4})
    run_chunks(run)
    evaluator = Evaluator(run)
    for setting in run.experiment.settings:
        evaluator.evaluate(setting)
    network, size = meta_copy(run.denoiser.network), evaluator.size
    run.store.close()
    found = {row.name: row.flops for row in read_report(tmp_path / "run").rows}
    dense, reused = count_flops(network, **size), reused_flops(network, bigain.FirstBlock(1.0), **size)
    assert found["all"] == found["never"] == dense
    assert found["always"] == round((dense + 3 * reused) / 4)
